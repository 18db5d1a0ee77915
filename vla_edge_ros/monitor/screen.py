# SPDX-License-Identifier: Apache-2.0
"""The whole screen: a row a subject, the last minute as bars, the last faults."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass

from vla_edge_ros.monitor import rows
from vla_edge_ros.monitor.fault_list import Fault
from vla_edge_ros.monitor.graph_state import STALE_S, GraphState
from vla_edge_ros.monitor.last_minute import SECONDS, Cycles
from vla_edge_ros.monitor.line import Line, bar
from vla_edge_ros.monitor.reading import LEVELS, OK
from vla_edge_ros.types import ActionSource

LABEL = 10  # columns
LEVEL_STYLES = ("good", "warn", "bad", "label")
DAY_S = 86400


@dataclass(frozen=True, slots=True)
class View:
    """What can be drawn on: columns, rows, and whether the encoding has block characters."""

    width: int = 80
    height: int = 24
    is_unicode: bool = True


def screen(state: GraphState, view: View, now_s: float, wall_s: float) -> list[Line]:
    """At most ``view.height`` lines; to be cut to the width by who paints them."""
    lines = [
        [
            ("vla_edge_ros monitor  ", "title"),
            (f"{clock(wall_s, wall_s)}  ", ""),
            (f"{state.node or state.namespace}  ", ""),
            *rows.headline(state, now_s),
        ],
        *waiting(state),
        *_figures(state, view, now_s),
        *_faults(state, wall_s),
    ]
    return lines[: view.height]


def waiting(state: GraphState) -> list[Line]:
    """What has not come yet, and what to look at; nothing once it came."""
    there, lines = state.publishers, []
    if state.cycle is None:
        lines.append(_awaited(there.status_topic, there.status))
        if not there.status:
            hint = f"is the reasoner running, in the namespace {state.namespace} and ROS_DOMAIN_ID"
            lines.append([(f"  {hint} {there.domain}?", "")])
        for topic in there.elsewhere:
            namespace = topic.rpartition("/")[0].strip("/") or "/"
            lines.append([(f"  there is {topic}: watch it with --namespace {namespace}", "")])
        if there.status:
            lines.append([("  a reasoner sends none before it is active, and Action says its state", "")])
    if not state.subjects():
        lines.append(_awaited("/diagnostics", there.diagnostics))
    return lines


def _awaited(topic: str, publishers: int) -> Line:
    who = f"{publishers} publishers" if publishers != 1 else "1 publisher"
    came = "nobody publishes it" if not publishers else f"{who}, and no message of {topic} came yet"
    return [(f"waiting for {topic}: {came}", "warn")]


def _figures(state: GraphState, view: View, now_s: float) -> list[Line]:
    minute = state.minute.total(now_s)
    seconds = state.minute.by_second(now_s)[-min(SECONDS, max(view.width - LABEL, 1)) :]
    lines: list[Line] = []
    if state.cycle is not None:
        lines += [
            _row("cycles", rows.cycles(state, minute, now_s)),
            _row("latency", rows.latency(state, minute)),
            _row("  max", _latency_bars(seconds, state.deadline_ms(), view)),
            _row("fallback", rows.fallback(state, minute)),
            _row("  share", _fallback_bars(seconds, view)),
            _row("refused", rows.refused(state, minute)),
        ]
    for label, subject, row in (
        ("camera", "Camera", rows.camera),
        ("cache", "KV cache", rows.cache),
        ("engine", "GPU", rows.engine),
        ("robot", "Robot", rows.robot),
    ):
        if (seen := state.subject(subject)) is not None:
            late = now_s - seen.at_s
            said = row(state, seen.reading)
            if late > STALE_S:
                said = [(f"no diagnostics for {late:.0f} s; the last: ", "warn"), *said]
            lines.append(_row(label, said))
    health = _health(state, now_s)
    return [*lines, _row("health", health)] if health else lines


def _row(label: str, spans: Line) -> Line:
    return [(label.ljust(LABEL), "label"), *spans]


def _latency_bars(seconds: list[Cycles | None], deadline_ms: float, view: View) -> Line:
    """The longest latency of each second; a full bar is the deadline, red what is over it."""
    longest = [max(cycles.latencies_ms, default=math.nan) if cycles else math.nan for cycles in seconds]
    known = [value for value in longest if not math.isnan(value)]
    full = deadline_ms if deadline_ms > 0 else max(known, default=math.nan)
    return [
        (bar(value, full, is_unicode=view.is_unicode), "bad" if value > full else "good") for value in longest
    ]


def _fallback_bars(seconds: list[Cycles | None], view: View) -> Line:
    """The share of each second's cycles that had no fresh action; red where the robot was stopped."""
    line: Line = []
    for cycles in seconds:
        share = (cycles.total - cycles.fresh) / cycles.total if cycles and cycles.total else math.nan
        stopped = cycles.sources[ActionSource.ZERO.value] if cycles else 0
        style = "bad" if stopped else "warn" if share > 0 else "good"
        line.append((bar(share, 1.0, is_unicode=view.is_unicode), style))
    return line


def _health(state: GraphState, now_s: float) -> Line:
    """What is not OK by its level, then the names of the rest; two nodes may have one subject."""
    statuses = state.subjects()
    subjects = Counter(seen.reading.subject for seen in statuses)
    line: Line = []
    fine = []
    for seen in statuses:
        reading = seen.reading
        name = reading.subject if subjects[reading.subject] == 1 else reading.name
        if now_s - seen.at_s > STALE_S:
            line += [(f"{name} ", ""), ("silent", "warn"), ("  ", "")]
        elif reading.level != OK:
            line += [(f"{name} ", ""), (LEVELS[reading.level], LEVEL_STYLES[reading.level]), ("  ", "")]
        else:
            fine.append(name)
    return [*line, ("OK", "good"), (f" {', '.join(fine)}", "")] if fine else line


def _faults(state: GraphState, wall_s: float) -> list[Line]:
    faults = state.faults.newest(50)
    return [[("faults", "label")], *(fault_line(fault, wall_s) for fault in faults)] if faults else []


def fault_line(fault: Fault, wall_s: float) -> Line:
    """When it began and ended, how bad it was, and what was said."""
    until = "lasts" if fault.ended_s is None else f"to {clock(fault.ended_s, wall_s)}"
    often = f", {fault.times} times" if fault.times > 1 else ""
    return [
        (f"  {clock(fault.began_s, wall_s)} {until}{often}  ", "label"),
        (f"{LEVELS[fault.level]} ", LEVEL_STYLES[fault.level]),
        (f"{fault.subject}: {fault.message}", "" if fault.ended_s is None else "label"),
    ]


def clock(at_s: float, wall_s: float) -> str:
    """The time of day here, with the date where it was not within a day."""
    form = "%H:%M:%S" if abs(wall_s - at_s) < DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(at_s))
