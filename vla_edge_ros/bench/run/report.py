# SPDX-License-Identifier: Apache-2.0
"""A run folder's report: ``report.json`` with the raw numbers, ``report.md`` and ``report.html``."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vla_edge_ros.bench.run import measures, section_camera, sections_state, sections_time
from vla_edge_ros.bench.run.blocks import Page, Section, Table, shown
from vla_edge_ros.bench.run.html_page import render_html
from vla_edge_ros.bench.run.markdown_page import render_markdown
from vla_edge_ros.bench.run.metrics import METRICS
from vla_edge_ros.bench.run.retention import SAME, is_one_rule, retention, same_kept
from vla_edge_ros.bench.run.trial_data import RunData
from vla_edge_ros.bench.run.verdicts import COLUMNS, MACHINE, UNCLEAR, Comparison, by_control, compare_sides

NAME = "report"
FIGURES = "figures"
BUSY_CORES = 0.3  # an idle system takes some hundredths of one


def comparisons_of(run: RunData) -> list[Comparison]:
    """Each policy against the first one."""
    first, *others = run.policies
    count = len(others) * len(METRICS)
    found = [
        comparison
        for other in others
        for comparison in compare_sides((first, run.of(first)), (other, run.of(other)), count)
    ]
    one, same = SAME
    if one in run.policies and same in run.policies and is_one_rule(run):
        found = by_control(found, compare_sides((one, run.of(one)), (same, run.of(same)), count))
    return found


def page_of(run: RunData, comparisons: Sequence[Comparison]) -> Page:
    """Everything that the report says."""
    plan = run.document["plan"]
    sections = [
        _summary(run, comparisons),
        sections_time.deadline_section(run),
        sections_time.latency_section(run),
        sections_time.fallback_section(run),
        sections_time.refusal_section(run),
        sections_time.prediction_section(run),
        section_camera.camera_section(run),
        sections_state.memory_section(run),
        sections_state.retention_section(run),
        sections_state.decoding_section(run),
        sections_state.success_section(run),
        differences_section(comparisons),
        _conditions(run),
    ]
    title = f"Benchmark of {', '.join(run.policies)} on {Path(plan['source']).name}"
    return Page(title, notice_of(run), [section for section in sections if section is not None])


def notice_of(run: RunData) -> str:
    """Empty for a run that is whole, on a machine that did little else."""
    trials = run.document["trials"]
    missing = [f"{trial['name']} ({trial['status']})" for trial in trials if trial["status"] != "complete"]
    notices = []
    if not run.is_complete:
        notices.append(
            f"Incomplete: of {len(trials)} trials {len(missing)} did not run to their end: "
            f"{', '.join(missing)}. What was measured until then is below."
        )
    others = [trial.other_cores for trial in run.trials if trial.other_cores is not None]
    if others and max(others) > BUSY_CORES:
        notices.append(
            f"Other programs took up to {max(others):.1f} of {run.document['machine']['cores']} cores "
            "meanwhile: these are numbers of a busy machine."
        )
    return " ".join(notices)


def measures_of(run: RunData) -> dict[str, Any]:
    """Raw numbers by policy."""
    rate_hz = float(run.document["plan"]["rate_hz"])
    found = {}
    for policy in run.policies:
        trials = run.of(policy)
        found[policy] = {
            "estimates": {
                metric.key: {
                    "value": each.value, "low": each.low, "high": each.high, "n": each.n,
                    "trials": each.trials,
                }
                for metric in METRICS
                for each in [metric.estimate(trials)]
            },
            "outcomes": measures.outcomes([record for trial in trials for record in trial.cycles]),
            "stages": measures.stages(trials),
            "fallbacks": measures.fallbacks(trials),
            "refusals": measures.refusals(trials),
            "predictions": measures.predictions(trials),
            "camera": measures.camera(trials, rate_hz),
            "memory": measures.memory(trials),
            "retention": retention(trials),
            "decoding": measures.decoding(trials),
            "success": measures.success(trials),
            "warmup_outcomes": measures.outcomes([r for trial in trials for r in trial.warmup]),
        }  # fmt: skip
    return found


def write_report(run: RunData) -> list[Path]:
    """Write the three files and the figures into the run's folder; the files that a reader opens."""
    comparisons = comparisons_of(run)
    page = page_of(run, comparisons)
    document = {
        "format": 1,
        "complete": run.is_complete,
        "run": run.document,
        "measures": measures_of(run),
        "sliding_window_against_fifo": same_kept(run.trials),
        "comparisons": [comparison.as_json() for comparison in comparisons],
        "sections": page.as_json(),
    }
    return write_page(page, document, run.folder, NAME)


def write_page(page: Page, document: dict[str, Any], folder: Path, name: str) -> list[Path]:
    """``<name>.json``, ``<name>.md`` with its figures as files, ``<name>.html`` with its figures inside."""
    figures = folder / FIGURES
    figures.mkdir(parents=True, exist_ok=True)
    for section in page.sections:
        for figure in section.figures:
            (figures / f"{name}-{figure.name}.svg").write_text(figure.svg + "\n", encoding="utf-8")
    texts = {
        "json": json.dumps(_finite(document), indent=2, allow_nan=False) + "\n",
        "md": render_markdown(page, lambda figure: f"{FIGURES}/{name}-{figure.name}.svg"),
        "html": render_html(page),
    }
    for suffix, text in texts.items():
        (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    return [folder / f"{name}.{suffix}" for suffix in ("html", "md", "json")]


def differences_section(comparisons: Sequence[Comparison]) -> Section | None:
    """None where nothing is compared."""
    if not comparisons:
        return None
    clear = [each for each in comparisons if each.verdict not in UNCLEAR]
    noise = [each for each in comparisons if each.verdict in UNCLEAR]
    answers = [each.sentence for each in clear] or [
        "Nothing: every difference is within the noise of the machine."
    ]
    if noise and clear:
        names = sorted({f"{each.metric} ({each.second})" for each in noise})
        answers.append(f"Within the noise, or equal: {'; '.join(names)}.")
    answers.append(
        f"A difference counts as more than chance where 0 lies outside of an interval that is widened for "
        f"all {len(comparisons)} comparisons (Bonferroni). Seconds are resampled as a whole, since cycles "
        "of a second share what the machine does. Maxima are not compared: an extreme value has no interval."
    )
    machine = [each for each in noise if each.verdict == MACHINE]
    if machine:
        answers.append(
            "fifo and sliding_window are one rule, so what differs between them is the machine. No more than "
            f"that differs: {'; '.join(sorted(f'{each.metric} ({each.second})' for each in machine))}."
        )
    table = Table("Every comparison", COLUMNS, [each.row() for each in comparisons])
    return Section("differences", "What differs by more than chance?", answers, [table])


def _summary(run: RunData, comparisons: Sequence[Comparison]) -> Section:
    rows = []
    for policy in run.policies:
        trials = run.of(policy)
        values = {metric.key: metric.estimate(trials).value for metric in METRICS}
        memory = measures.memory(trials).get("reasoner", {}).get("peak_mb", math.nan)
        kept = retention(trials)
        rows.append(
            [policy, len(trials), sum(len(trial.cycles) for trial in trials), values["miss_rate"],
             values["fallback_rate"], values["latency_p50"], values["latency_p99"], values["to_action_p99"],
             memory, kept.get("oldest_s")]
        )  # fmt: skip
    columns = [
        ("policy", "text"), ("trials", "count"), ("cycles", "count"), ("deadline misses", "share"),
        ("no fresh action", "share"), ("latency p50, ms", "ms"), ("p99, ms", "ms"),
        ("picture to action p99, ms", "ms"), ("peak memory, MiB", "mb"), ("looks back, s", "s"),
    ]  # fmt: skip
    clear = [each for each in comparisons if each.verdict not in UNCLEAR]
    return Section(
        "summary",
        "In short",
        [
            _in_words(rows, run.trials[0].deadline_ms),
            _weights(run),
            f"{len(clear)} of {len(comparisons)} differences between policies are more than chance explains; "
            "the section on differences names them."
            if comparisons
            else "One policy was measured, so nothing is compared.",
        ],
        [Table("Each policy at a glance", columns, rows)],
    )


def _in_words(rows: Sequence[Sequence[Any]], deadline_ms: float) -> str:
    """``rows``: of the table below it."""

    def span(kind: str, place: int) -> str:
        values = [row[place] for row in rows if math.isfinite(row[place])] or [math.nan]
        ends = [shown(kind, end(values)) for end in (min, max)]
        return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"

    return (
        f"Deadline misses {span('share', 3)}, cycles without a fresh action {span('share', 4)}; fresh "
        f"actions after {span('ms', 6)} ms at the 99th percentile, of a deadline of {deadline_ms:g} ms; "
        f"peak memory {span('mb', 8)} MiB."
    )


def _weights(run: RunData) -> str:
    """What the actions mean, before any number is read."""
    model = run.trials[0].config["model"]
    if model["path"]:
        return f"The weights are those of {Path(model['path']).name}."
    return (
        f"The weights are random, in the sizes of {model['preset']}: times, memory and what is kept are "
        "real, actions mean nothing."
    )


def _conditions(run: RunData) -> Section:
    document, plan, trial = run.document, run.document["plan"], run.trials[0]
    machine, config = document["machine"], trial.config
    facts = [
        ["command", document["command"]],
        ["commit", document["commit"]],
        ["begun, ended", f"{document['begun_utc']}, {document['ended_utc'] or 'not ended'}"],
        ["processor", f"{machine['cpu']}, {machine['cores']} cores"],
        ["GPU", machine["gpu"]],
        ["source", f"{Path(plan['source']).name} at {plan['rate_hz']:g} Hz"],
        ["graph", "ROS: camera and reasoner in processes of their own" if plan["uses_ros"]
         else "without ROS, camera and runtime in one process"],
        ["engine", f"{plan['engine']}, weights {config['engine']['weights']}, kv {config['engine']['kv']}"],
        ["period, deadline", f"{trial.period_ms:g} ms, {trial.deadline_ms:g} ms"],
        ["a trial", f"{plan['warmup_s']:g} s warm-up, {plan['duration_s']:g} s measured"],
        ["repeats", f"{plan['repeats']}, seeds from {plan['seed']}"],
        *[[name, text] for name, text in document["versions"].items()],
    ]  # fmt: skip
    return Section(
        "conditions",
        "Under which conditions was this measured?",
        [
            "Policies take turns within each repeat. The warm-up, counted from the first picture, is "
            "recorded and left out of every other table. Each trial's folder holds its table of cycles "
            "(cycles.csv), its topics as a bag (with ROS), memory.csv, and its logs.",
        ],
        [
            Table("The run", [("what", "text"), ("value", "text")], facts),
            sections_time.trials_table(list(run.trials)),
        ],
    )


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity; what is not known is null."""
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
