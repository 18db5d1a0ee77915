# SPDX-License-Identifier: Apache-2.0
"""What each row of the screen says, from what is known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from vla_edge_ros.monitor.graph_state import SILENT_S, STALE_S, GraphState
from vla_edge_ros.monitor.last_minute import REFUSALS, Cycles
from vla_edge_ros.monitor.line import Line, Span, joined
from vla_edge_ros.monitor.reading import OK, Reading
from vla_edge_ros.quantiles import quantile
from vla_edge_ros.types import ActionSource, Outcome

NEAR = 0.9  # of the deadline
RATE_OVER_S = 5
SOURCE_STYLES = {
    ActionSource.FRESH.value: "good",
    ActionSource.REPEAT.value: "warn",
    ActionSource.NONE.value: "warn",
}


def headline(state: GraphState, now_s: float) -> Line:
    """What the last cycle did, or for how long none was heard of."""
    if state.cycle is None:
        return [("waiting", "warn")]
    silent_s = now_s - state.cycle.at_s
    outcome, source = (state.cycle.reading.text(key) for key in ("outcome", "source"))
    if outcome == Outcome.STOPPED.value:
        return [(f"stopped {silent_s:.0f} s ago", "warn"), _why(state, now_s)]
    if silent_s > SILENT_S:
        return [(f"no status for {silent_s:.0f} s", "bad"), _why(state, now_s)]
    line = [(outcome if outcome == source else f"{outcome}, {source}", SOURCE_STYLES.get(source, "bad"))]
    if state.publishers.status > 1:
        line.append((f"  {state.publishers.status} publishers of {state.publishers.status_topic}", "bad"))
    return line


def _why(state: GraphState, now_s: float) -> Span:
    """What the subject Action says of a reasoner that runs no cycles: mostly its lifecycle state."""
    action = state.subject("Action")
    if action is None or now_s - action.at_s > STALE_S:
        return ("  and no diagnostics: is it running?", "bad")
    return (f"  Action: {action.reading.message}", "")


def cycles(state: GraphState, minute: Cycles, now_s: float) -> Line:
    """Rate, and how the cycles of the last minute ended."""
    whole = [second.total if second else 0 for second in state.minute.by_second(now_s)[-RATE_OVER_S - 1 : -1]]
    rate = f"{sum(whole) / RATE_OVER_S:.1f} Hz"
    shares = (f"{name} {100 * count / minute.total:.1f} %" for name, count in minute.outcomes.most_common())
    unseen = f"{minute.unseen} without a message" if minute.unseen else ""
    text = joined([rate, "last minute:" if minute.total else "none in the last minute", *shares, unseen])
    return [(text, "")]


def latency(state: GraphState, minute: Cycles) -> Line:
    """Of fresh actions in the last minute, against the deadline."""
    deadline_ms = state.deadline_ms()
    limit = "" if math.isnan(deadline_ms) else f"deadline {deadline_ms:.1f} ms"
    seen = state.subject("Deadline")
    late = f"late messages {seen.reading.count('late_messages')}" if seen else ""
    if not minute.latencies_ms:
        return [(joined(["no fresh action in the last minute", limit, late]), "")]
    ordered = sorted(minute.latencies_ms)
    p50, p99 = quantile(ordered, 0.5), quantile(ordered, 0.99)
    style = "bad" if p99 > deadline_ms else "warn" if p99 > NEAR * deadline_ms else "good"
    style = "" if math.isnan(deadline_ms) else style
    return [
        (f"p50 {p50:.2f}  ", ""),
        (f"p99 {p99:.2f}", style),
        (f"  max {ordered[-1]:.2f} ms  {joined([limit, late])}", ""),
    ]


def fallback(state: GraphState, minute: Cycles) -> Line:
    """What was sent in place of fresh actions in the last minute."""
    others = [source for source in minute.sources if source != ActionSource.FRESH.value]
    counts = _counts({source: minute.sources[source] for source in others})
    seen = state.subject("Action")
    longest = f"longest repeat {seen.reading.count('longest_repeat')}" if seen else ""
    style = "bad" if minute.sources[ActionSource.ZERO.value] else "warn" if others else "good"
    return [(counts or "none", style), (f"  {longest}", "")]


def refused(state: GraphState, minute: Cycles) -> Line:
    """By admission, with its reasons: in the last minute, and since the node's activation."""
    last = _counts(minute.refusals)
    seen = state.subject("Admission")
    if seen is None:
        return [(last or "none", "warn" if last else "good")]
    total = _counts({reason: seen.reading.count(f"refused_{reason}") for reason in REFUSALS})
    return [(last or "none", "warn" if last else "good"), (f"  since activation: {total or 'none'}", "")]


def camera(state: GraphState, reading: Reading) -> Line:
    age_ms = state.cycle.reading.number("age_ms") if state.cycle else math.nan
    parts = [
        f"{_figure(reading.number('rate_hz'), '.1f')} Hz",
        f"age {_figure(age_ms, '.0f')} ms",
        f"{reading.count('width_px')}x{reading.count('height_px')} {reading.text('encoding')}",
        f"lost {_figure(reading.number('lost_percent'), '.1f')} %",
        f"silent {_figure(reading.number('silent_s'), '.1f')} s",
    ]
    return [(joined(parts), ""), *_complaint(reading)]


def cache(state: GraphState, reading: Reading) -> Line:
    used, capacity = reading.count("slots_in_use"), reading.count("capacity_slots")
    share = f"({100 * used / capacity:.0f} %)" if capacity else ""
    parts = [
        f"{used} of {capacity} slots {share}",
        f"evictions {reading.count('evictions')}",
        f"longest gap {_figure(reading.number('longest_memory_gap_ms'), '.0f')} ms",
        reading.message,  # the eviction policy
    ]
    return [(joined(parts), "")]


def engine(state: GraphState, reading: Reading) -> Line:
    parts = [reading.message, f"{reading.count('memory_mb')} MB", f"errors {reading.count('errors')}"]
    return [(joined(parts), "bad" if reading.level > OK else "")]


def robot(state: GraphState, reading: Reading) -> Line:
    """What it makes of the actions, and its episode where it plays any."""
    refusals = {
        key.removeprefix("refused_"): reading.count(key)
        for key in reading.values
        if key.startswith("refused_")
    }
    parts = [
        reading.message,
        f"accepted {reading.count('accepted')}",
        f"refused {_counts(refusals) or 0}",
        f"silent {_figure(reading.number('silent_s'), '.1f')} s",
    ]
    if state.episode is not None:
        episode = state.episode.reading
        parts.append(
            f"episode {episode.text('episode')} {episode.text('task')}: {episode.text('instruction')}"
        )
    return [(joined(parts), "bad" if reading.level > OK else "")]


def _complaint(reading: Reading) -> Iterable[Span]:
    return [(f"  {reading.message}", "warn")] if reading.level > OK else []


def _counts(counts: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count)


def _figure(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
