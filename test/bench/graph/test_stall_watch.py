# SPDX-License-Identifier: Apache-2.0
"""A held GIL is seen; how still an idle machine is is not asserted, it is not ours to say."""

from __future__ import annotations

import ctypes
import json
import time

from vla_edge_ros.bench.graph.stall_watch import LATE_MS, Stall, StallWatch, from_json, totals
from vla_edge_ros.types import NS_PER_MS


def late(ms: float, due_ns: int = 0) -> tuple[int, int]:
    return due_ns, due_ns + round(ms * NS_PER_MS)


def test_a_held_gil_is_recorded_with_its_time_and_length():
    watch = StallWatch()
    before_ns = time.monotonic_ns()
    watch.start()
    ctypes.PyDLL(None).usleep(50_000)  # as a PyDLL it keeps the GIL
    watch.stop()
    longest = max(watch.stalls, key=lambda stall: stall.late_ms)
    assert longest.late_ms >= 30 and watch.count >= 1
    assert before_ns <= longest.due_ns <= time.monotonic_ns()


def test_stop_ends_the_thread_also_twice_and_before_a_start():
    watch = StallWatch()
    watch.stop()
    watch = StallWatch()
    watch.start()
    watch.stop()
    watch.stop()
    assert watch._thread is not None and not watch._thread.is_alive()


def test_the_longest_are_kept_in_order_of_time_and_all_are_counted():
    watch = StallWatch(kept=3)
    for due_ns, ms in enumerate((4, 9, 5, 20, 6, 8)):
        watch.note(*late(ms, due_ns))
    assert watch.stalls == [Stall(1, 9.0), Stall(3, 20.0), Stall(5, 8.0)]
    assert watch.count == 6


def test_a_wake_up_that_is_hardly_late_is_no_stall():
    watch = StallWatch()
    watch.note(*late(LATE_MS))
    assert watch.count == 0 and watch.stalls == []


def test_another_process_reads_what_was_written():
    watch = StallWatch()
    watch.note(*late(7.5, 123))
    written = json.loads(json.dumps(watch.as_json()))
    assert written["count"] == 1 and from_json(written["stalls"]) == watch.stalls


def test_totals_of_none_and_of_some():
    assert totals(0, []) == {"count": 0, "max_ms": 0.0}
    assert totals(7, [Stall(1, 4.0), Stall(2, 6.123)]) == {"count": 7, "max_ms": 6.12}
