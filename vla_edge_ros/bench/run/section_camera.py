# SPDX-License-Identifier: Apache-2.0
"""The report's section about the camera."""

from __future__ import annotations

from vla_edge_ros.bench.run import measures
from vla_edge_ros.bench.run.blocks import Figure, Section, Table, shown
from vla_edge_ros.bench.run.charts import Range, range_chart
from vla_edge_ros.bench.run.sections_time import QUANTILES
from vla_edge_ros.bench.run.trial_data import RunData


def camera_section(run: RunData) -> Section:
    rate_hz = float(run.document["plan"]["rate_hz"])
    found = {policy: measures.camera(run.of(policy), rate_hz) for policy in run.policies}
    rows = [
        [policy, each["gaps"], *(each[f"off_ms_{name}"] for name in QUANTILES), each["late_by_a_period"],
         each["pauses"], each["longest_pause_ms"], each["frames_received"], each["frames_refused"]]
        for policy, each in found.items()
    ]  # fmt: skip
    columns = [
        ("policy", "text"), ("gaps", "count"), ("off p50, ms", "ms"), ("p95, ms", "ms"), ("p99, ms", "ms"),
        ("max, ms", "ms"), ("periods too much", "count"), ("pauses", "count"),
        ("longest pause, ms", "ms"), ("pictures received", "count"),
        ("refused", "count"),
    ]  # fmt: skip
    said = "; ".join(
        f"{policy} {shown('ms', each['off_ms_p50'])} / {shown('ms', each['off_ms_p99'])} / "
        f"{shown('ms', each['off_ms_max'])} ms"
        for policy, each in found.items()
    )
    alt = f"How far pictures came from an even {rate_hz:g} Hz (p50 / p99 / max): {said}"
    ranges = [
        Range(policy, {name: each[f"off_ms_{name}"] for name in QUANTILES}, index)
        for index, (policy, each) in enumerate(found.items())
    ]
    return Section(
        "camera",
        "How evenly did pictures come?",
        [
            f"Distance of a picture's stamp from an even {rate_hz:g} Hz, counted from the picture that was "
            f"used before (p50 / p99 / max): {said}.",
            "A late picture costs no deadline, but it is older when it is used. A period too much is a "
            "picture that was left out or lost on its way. A pause, more than four periods without a "
            "picture, is counted apart.",
        ],
        [Table("Camera jitter", columns, rows)],
        [Figure("camera", "Distance from an even rate", alt, range_chart(ranges, alt, None))],
    )
