# SPDX-License-Identifier: Apache-2.0
"""The report's sections about time: deadline, latency, fallbacks, refusals, predictions."""

from __future__ import annotations

from vla_edge_ros.bench.run import measures
from vla_edge_ros.bench.run.blocks import Figure, Section, Table, Value, shown
from vla_edge_ros.bench.run.charts import Bar, Range, bar_chart, range_chart, stacked_chart
from vla_edge_ros.bench.run.metrics import METRICS
from vla_edge_ros.bench.run.plots import plot
from vla_edge_ros.bench.run.trial_data import RunData, TrialData

QUANTILES = ("p50", "p95", "p99", "max")
STAGE_TITLES = {
    "frame_age": "age of the picture when it is taken",
    "vision": "patch embedding",
    "prefill": "prefill",
    "decode": "decode steps",
    "chunk": "whole chunk (these three)",
    "latency": "grid point to publish",
    "to_action": "picture to action",
}
_BY_KEY = {metric.key: metric for metric in METRICS}


def deadline_section(run: RunData) -> Section:
    rows: list[list[Value]] = []
    bars, said = [], []
    for policy in run.policies:
        trials = run.of(policy)
        miss, late = (_BY_KEY[key].estimate(trials) for key in ("miss_rate", "late_rate"))
        misses, lates = round(miss.value * miss.n), round(late.value * late.n) if late.n else 0
        rows.append(
            [policy, miss.n, misses, miss.value, miss.low, miss.high, lates, late.value, late.low, late.high]
        )
        bars.append(Bar(policy, 100 * miss.value, f"{misses} of {miss.n:,}", 100 * miss.low, 100 * miss.high))
        said.append(f"{policy}: {shown('share', miss.value)} ({misses} of {miss.n:,} cycles)")
    columns = [
        ("policy", "text"), ("cycles", "count"), ("misses", "count"), ("miss rate", "share"),
        ("95 % from", "share"), ("to", "share"), ("late messages", "count"), ("late rate", "share"),
        ("95 % from", "share"), ("to", "share"),
    ]  # fmt: skip
    alt = "Deadline misses by policy, in per cent of cycles. " + "; ".join(said)
    return Section(
        "deadline",
        "How often was the deadline missed?",
        [
            f"A computation was started and gave no action in time: {'; '.join(said)}.",
            "A miss is not a late message: the watchdog answers such a cycle in time. A late message was "
            f"published later than {run.trials[0].deadline_ms:g} ms after its grid point. Intervals are "
            "Wilson's for 95 %, widened for how unevenly the events fall over the seconds.",
        ],
        [Table("Deadline misses and late messages", columns, rows)],
        [
            Figure(
                "deadline-misses",
                "Deadline misses, with 95 % intervals",
                alt,
                bar_chart(bars, alt, " %", 1.0),
            )
        ],
    )


def latency_section(run: RunData) -> Section:
    rows: list[list[Value]] = []
    ranges: list[Range] = []
    ends: list[Range] = []
    found = {policy: measures.stages(run.of(policy)) for policy in run.policies}
    for stage, title in STAGE_TITLES.items():
        for index, policy in enumerate(run.policies):
            values = found[policy][stage]
            rows.append([title, policy, *(values[name] for name in QUANTILES), int(values["n"])])
            each = Range(f"{_short(title)}, {policy}", values, index)
            (ends if stage in ("latency", "to_action") else ranges).append(each)
    deadline_ms = run.trials[0].deadline_ms
    said = "; ".join(
        f"{policy} {shown('ms', found[policy]['latency']['p50'])} / "
        f"{shown('ms', found[policy]['latency']['p99'])} / {shown('ms', found[policy]['latency']['max'])} ms"
        for policy in run.policies
    )
    columns = [
        ("stage", "text"), ("policy", "text"), ("p50, ms", "ms"), ("p95, ms", "ms"), ("p99, ms", "ms"),
        ("max, ms", "ms"), ("actions", "count"),
    ]  # fmt: skip
    alt = f"Median, 95th and 99th percentile and maximum. From the grid point to the publish call: {said}."
    stage_alt = "The same for each stage: " + "; ".join(
        f"{_short(STAGE_TITLES[stage])} {policy} p50 {shown('ms', found[policy][stage]['p50'])} ms, "
        f"p99 {shown('ms', found[policy][stage]['p99'])} ms"
        for stage in ("prefill", "decode", "chunk")
        for policy in run.policies
    )
    bars = "Bar: median; line: to p99, with a tick at p95; dot: the slowest; an arrow where it lies outside"
    return Section(
        "latency",
        "Where does the time go, and how much is left before the deadline?",
        [
            f"From the grid point to the publish call a fresh action took (p50 / p99 / max): {said}; the "
            f"deadline is {deadline_ms:g} ms.",
            "Picture to action counts from the camera's stamp. It holds the picture's wait for the next grid "
            "point, so it may be longer than the deadline without anything being late.",
        ],
        [Table("Latency by stage, of fresh actions", columns, rows)],
        [
            Figure("latency", f"To the action, against the deadline. {bars}", alt,
                   range_chart(ends, alt, deadline_ms, "deadline")),
            Figure("stages", f"The stages. {bars}", stage_alt, range_chart(ranges, stage_alt, None)),
        ],
    )  # fmt: skip


def fallback_section(run: RunData) -> Section:
    found = {policy: measures.fallbacks(run.of(policy)) for policy in run.policies}
    rows, said = [], []
    for policy, each in found.items():
        fell = each["cycles"] - each["fresh"]
        said.append(f"{policy} in {shown('share', fell / each['cycles'])} of {each['cycles']:,} cycles")
        for cause, count in each["causes"].items() or {"none": 0}.items():
            rows.append([policy, cause, count, count / each["cycles"]])
    repeats = [
        [policy, each["cycles"], each["fresh"] / each["cycles"], each["sources"].get("repeat", 0),
         each["sources"].get("zero", 0), each["longest_repeat"], each["longest_without_fresh"],
         each["unanswered"]]
        for policy, each in found.items()
    ]  # fmt: skip
    columns = [
        ("policy", "text"), ("cycles", "count"), ("fresh", "share"), ("repeats", "count"), ("zero", "count"),
        ("longest repeat", "count"), ("longest without a fresh action", "count"),
        ("periods without a message", "count"),
    ]  # fmt: skip
    shares = {
        policy: {cause: count / each["cycles"] for cause, count in each["causes"].items()}
        for policy, each in found.items()
    }
    alt = "Cycles without a fresh action by cause. " + "; ".join(
        f"{policy}: " + (", ".join(f"{c} {s:.2%}" for c, s in parts.items()) or "none")
        for policy, parts in shares.items()
    )
    answers = [
        f"The robot got something other than a fresh action: {'; '.join(said)}.",
        "refused: predicted not to end in time; aborted and late: started and not in time; no_new_frame: no "
        "picture had come since the last cycle.",
    ]
    if run.document["plan"]["source"] == "tabletop":
        answers.append(
            "The simulated table sends no pictures between two episodes: those cycles count as no_new_frame "
            "or stale_frame, and are no fault."
        )
    causes = Table(
        "Cycles without a fresh action, by cause",
        [("policy", "text"), ("cause", "text"), ("cycles", "count"), ("of all", "share")],
        rows,
    )
    return Section(
        "fallbacks",
        "What does the robot get when there is no fresh action, and why?",
        answers,
        [causes, Table("What was published", columns, repeats)],
        [Figure("fallbacks", "Cycles without a fresh action", alt, stacked_chart(shares, alt))],
    )


def refusal_section(run: RunData) -> Section:
    rows, shares = [], {}
    for policy in run.policies:
        each = measures.refusals(run.of(policy))
        reasons = each["refused"]
        shares[policy] = {name: count / max(1, each["decisions"]) for name, count in reasons.items()}
        for reason, count in reasons.items() or {"none": 0}.items():
            rows.append([policy, reason, count, each["decisions"]])
    total = sum(row[2] for row in rows)
    said = "; ".join(f"{policy} {sum(parts.values()):.2%}" for policy, parts in shares.items())
    alt = f"Refusals of admission by reason, as a share of decisions: {said}"
    return Section(
        "refusals",
        "What did admission refuse?",
        [
            f"Refused of all decisions: {said}."
            if total
            else "Nothing: every chunk that was asked for was admitted.",
            "over_budget: elapsed and predicted time do not fit into the deadline less the margin; "
            "no_time_left: the budget was spent before admission was asked.",
        ],
        [
            Table(
                "Refusals by reason",
                [("policy", "text"), ("reason", "text"), ("refused", "count"), ("decisions", "count")],
                rows,
            )
        ],
        [Figure("refusals", "Refusals by reason", alt, stacked_chart(shares, alt))] if total else [],
    )


def prediction_section(run: RunData) -> Section:
    found = {policy: measures.predictions(run.of(policy)) for policy in run.policies}
    found = {policy: each for policy, each in found.items() if each["chunks"]}
    rows = [
        [policy, each["chunks"], each["predicted_ms_p50"], each["measured_ms_p50"], each["error_ms_p5"],
         each["error_ms_p50"], each["error_ms_p95"], each["error_ms_max"], each["took_longer"]]
        for policy, each in found.items()
    ]  # fmt: skip
    columns = [
        ("policy", "text"), ("chunks", "count"), ("predicted p50, ms", "ms"), ("measured p50, ms", "ms"),
        ("error p5, ms", "ms"), ("p50, ms", "ms"), ("p95, ms", "ms"), ("max, ms", "ms"),
        ("took longer than predicted", "share"),
    ]  # fmt: skip
    said = "; ".join(
        f"{policy} {shown('ms', each['error_ms_p50'])} ms in the median, "
        f"{shown('ms', each['error_ms_p95'])} ms at the 95th percentile"
        for policy, each in found.items()
    )
    alt = f"Measured against predicted time of a chunk, a dot a chunk. Measured less predicted: {said}."
    points = {policy: each["points"] for policy, each in found.items()}
    figure = plot(
        points, alt, ("predicted, ms", "measured, ms"), joined=False, diagonal=True, from_zero=False
    )
    return Section(
        "predictions",
        "Does admission know what a chunk costs?",
        [
            f"Measured less predicted time of whole chunks: {said}." if found else "No chunk ran to its end.",
            "Below 0 a chunk was faster than predicted. Chunks that were refused have no measured time, so "
            "these figures flatter a rule that refuses much.",
        ],
        [Table("Measured less predicted time of whole chunks", columns, rows)] if found else [],
        [
            Figure(
                "predictions",
                "A dot a chunk; on the dashed line prediction and measurement agree",
                alt,
                figure,
            )
        ]
        if found
        else [],
    )


def trials_table(trials: list[TrialData]) -> Table:
    """What each trial measured, its warm-up apart."""
    rows: list[list[Value]] = [
        [
            trial.name,
            trial.seed,
            trial.status,
            len(trial.warmup),
            len(trial.cycles),
            trial.other_cores,
            trial.error,
        ]
        for trial in trials
    ]
    columns = [
        ("trial", "text"), ("seed", "count"), ("status", "text"), ("warm-up cycles", "count"),
        ("measured cycles", "count"), ("cores busy with others", "number"), ("error", "text"),
    ]  # fmt: skip
    return Table("Trials, in their order", columns, rows)


def _short(title: str) -> str:
    return title.partition(" (")[0].replace("age of the picture when it is taken", "picture's age")
