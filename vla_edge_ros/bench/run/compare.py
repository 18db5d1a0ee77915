# SPDX-License-Identifier: Apache-2.0
"""Two run folders side by side: policy by policy, each number with its interval and a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vla_edge_ros.bench.run import measures
from vla_edge_ros.bench.run.blocks import Page, Section, Table, Value
from vla_edge_ros.bench.run.metrics import METRICS
from vla_edge_ros.bench.run.report import differences_section, notice_of
from vla_edge_ros.bench.run.trial_data import RunData, read_run
from vla_edge_ros.bench.run.verdicts import COLUMNS, UNCLEAR, Comparison, compare_sides
from vla_edge_ros.errors import SourceError

NAME = "comparison"
# What two runs may differ in on purpose, or by mistake.
_CONDITIONS = ("source", "rate_hz", "duration_s", "warmup_s", "repeats", "seed", "uses_ros", "engine")
_MACHINE = ("cpu", "cores", "gpu", "python", "numpy")


def compare(folder_a: Path, folder_b: Path) -> tuple[Page, dict[str, Any]]:
    """The page and its raw numbers. Raises ``SourceError`` where they have no policy in common."""
    a, b = read_run(folder_a), read_run(folder_b)
    common = [policy for policy in a.policies if policy in b.policies]
    if not common:
        raise SourceError(
            f"two runs must have a policy in common, got {', '.join(a.policies)} and {', '.join(b.policies)}"
        )
    count = len(common) * len(METRICS)
    by_policy = {policy: compare_sides(("A", a.of(policy)), ("B", b.of(policy)), count) for policy in common}
    every = [each for found in by_policy.values() for each in found]
    sections = [_verdict(by_policy), _conditions(a, b)]
    sections += [_policy_section(policy, found) for policy, found in by_policy.items()]
    sections.append(_memory(a, b, common))
    if method := differences_section(every):
        sections.append(Section("method", "How was this judged?", method.answers[-1:]))
    notices = [f"Run {name}: {notice}" for name, run in (("A", a), ("B", b)) if (notice := notice_of(run))]
    page = Page(f"A: {folder_a.name}, B: {folder_b.name}", " ".join(notices), sections)
    document = {
        "format": 1,
        "a": {"folder": folder_a.name, "run": a.document},
        "b": {"folder": folder_b.name, "run": b.document},
        "comparisons": {policy: [each.as_json() for each in found] for policy, found in by_policy.items()},
        "sections": page.as_json(),
    }
    return page, document


def _verdict(by_policy: dict[str, list[Comparison]]) -> Section:
    every = [(policy, each) for policy, found in by_policy.items() for each in found]
    clear = [f"{policy}: {each.sentence}" for policy, each in every if each.verdict not in UNCLEAR]
    noise = [f"{policy}: {each.metric}" for policy, each in every if each.verdict in UNCLEAR]
    head = (
        f"{len(clear)} of {len(every)} numbers differ by more than chance explains."
        if clear
        else f"None of {len(every)} numbers differs by more than the noise."
    )
    answers = [head, *clear]
    if noise:
        answers.append(f"Noise, or equal: {'; '.join(noise)}.")
    return Section("verdict", "Do A and B differ?", answers)


def _conditions(a: RunData, b: RunData) -> Section:
    """What was the same, and what was not."""
    rows: list[list[Value]] = []
    for name in _CONDITIONS:
        rows.append([name, str(a.document["plan"][name]), str(b.document["plan"][name])])
    for name in _MACHINE:
        rows.append([name, str(a.document["machine"].get(name)), str(b.document["machine"].get(name))])
    rows.append(["commit", a.document["commit"], b.document["commit"]])
    rows += [
        [name, str(left), str(right)]
        for name, left, right in _differing(a.trials[0].config, b.trials[0].config)
    ]
    differing = [str(row[0]) for row in rows if row[1] != row[2]]
    answer = (
        f"They differ in {', '.join(differing)}."
        if differing
        else "Source, machine, commit and every parameter are the same."
    )
    columns = [("what", "text"), ("A", "text"), ("B", "text")]
    return Section(
        "conditions",
        "Under which conditions was each measured?",
        [answer, "A difference below may come from any of these, or from what else the machine did."],
        [Table("Conditions", columns, rows)],
    )


def _memory(a: RunData, b: RunData, common: list[str]) -> Section:
    rows: list[list[Value]] = []
    for policy in common:
        left, right = measures.memory(a.of(policy)), measures.memory(b.of(policy))
        for name in sorted({*left, *right}):
            peaks = [side.get(name, {}).get("peak_mb") for side in (left, right)]
            rows.append([f"{policy}, {name}", *peaks])
    return Section(
        "memory",
        "How much memory did each take?",
        ["Peaks of all trials, from outside. A peak is one number and has no interval."],
        [Table("Peak memory", [("what", "text"), ("A, MiB", "mb"), ("B, MiB", "mb")], rows)] if rows else [],
    )


def _differing(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Parameters by dotted name; where a run is recorded, and what trials change, are left out."""
    left, right = _flat(a), _flat(b)
    names = sorted({*left, *right} - {"recording.path", "cache.eviction", "model.seed"})
    return [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _policy_section(policy: str, found: list[Comparison]) -> Section:
    clear = [each.metric for each in found if each.verdict not in UNCLEAR]
    answer = f"More than chance: {', '.join(clear)}." if clear else "All within the noise."
    return Section(
        f"policy-{policy}", policy, [answer], [Table(policy, COLUMNS, [each.row() for each in found])]
    )
