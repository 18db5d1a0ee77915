# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import time

import pytest
from waiting_thread import waiting

from vla_edge_ros.runtime.cycle_clock import CycleClock

MS = 1_000_000
HOUR = 3_600_000 * MS


def wait_until_steady(when_ns: int) -> None:
    while time.monotonic_ns() < when_ns:
        pass


def test_ticks_lie_on_the_grid_and_never_come_early():
    clock = CycleClock(3 * MS, 100_000)
    epoch = clock.start()
    last = 0
    for _ in range(20):
        tick = clock.wait_next()
        assert tick.scheduled_ns == epoch + tick.cycle * 3 * MS
        assert tick.scheduled_ns <= tick.woke_ns <= time.monotonic_ns()
        assert tick.skipped == tick.cycle - last - 1 >= 0
        last = tick.cycle
    assert clock.total_skipped == last - 20


def test_epoch_is_cycle_zero_and_now_by_default():
    clock = CycleClock(HOUR, 0)
    before = time.monotonic_ns()
    assert before <= clock.start() <= time.monotonic_ns()
    assert clock.start(12345) == 12345


def test_first_tick_of_an_epoch_in_the_future_is_cycle_zero():
    clock = CycleClock(5 * MS, 0)
    epoch = clock.start(time.monotonic_ns() + 5 * MS)
    tick = clock.wait_next()
    assert tick.scheduled_ns == epoch + tick.cycle * 5 * MS
    assert tick.cycle == tick.skipped, "nothing before the epoch is on this run's grid"


def test_points_before_the_start_are_not_skipped():
    clock = CycleClock(5 * MS, 0)
    epoch = time.monotonic_ns() - 1000 * 5 * MS
    clock.start(epoch)
    tick = clock.wait_next()
    assert tick.cycle >= 1001
    assert tick.skipped <= tick.cycle - 1001
    assert tick.scheduled_ns == epoch + tick.cycle * 5 * MS


def test_a_stall_gives_one_tick_then_the_grid_and_no_burst():
    clock = CycleClock(4 * MS, 50_000)
    clock.start()
    before = clock.wait_next()
    wait_until_steady(before.scheduled_ns + 10 * 4 * MS + MS)
    resumed_at = time.monotonic_ns()
    after, following = clock.wait_next(), clock.wait_next()
    assert after.scheduled_ns > resumed_at, "a point of the past is left out"
    assert after.skipped == after.cycle - before.cycle - 1 >= 10
    assert following.cycle > after.cycle
    assert following.scheduled_ns - after.scheduled_ns >= 4 * MS
    assert clock.total_skipped >= after.skipped


def test_wait_before_start_and_after_stop_returns_none_at_once():
    clock = CycleClock(HOUR, 0)
    assert clock.wait_next() is None
    clock.start()
    clock.stop()
    clock.stop()
    assert clock.wait_next() is None


def test_restart_begins_a_new_grid():
    clock = CycleClock(2 * MS, 0)
    clock.start()
    assert clock.wait_next().cycle >= 1
    clock.stop()
    epoch = clock.start()
    tick = clock.wait_next()
    assert tick.scheduled_ns == epoch + tick.cycle * 2 * MS


@pytest.mark.parametrize("restart", [False, True], ids=["stop", "stop then start"])
def test_stop_from_another_thread_ends_a_wait_in_progress(restart):
    clock = CycleClock(HOUR, 0)
    clock.start()
    thread, ticks = waiting(clock.wait_next)
    clock.stop()
    if restart:
        clock.start()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert ticks == [None]


def test_gil_is_free_during_a_wait():
    """In a process of its own: with the GIL held, stop() could never be called."""
    program = (
        "import threading\n"
        "from vla_edge_ros.runtime.cycle_clock import CycleClock\n"
        "clock = CycleClock(3_600_000_000_000, 0)\n"
        "clock.start()\n"
        "thread = threading.Thread(target=clock.wait_next)\n"
        "thread.start()\n"
        "sum(range(1_000_000))\n"
        "clock.stop()\n"
        "thread.join()\n"
        "print('free')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "free\n", ran.stderr


def test_a_wait_sleeps_and_spins_at_the_end_only():
    """Fault A9, by the thread's own processor time, which a busy machine does not add to."""
    clock = CycleClock(300 * MS, 200_000)
    clock.start()
    clock.wait_next()
    spent_before = time.thread_time_ns()
    clock.wait_next()
    assert time.thread_time_ns() - spent_before < 100 * MS


@pytest.mark.parametrize(
    ("period_ns", "spin_ns", "text"),
    [
        (0, 0, "period_ns must be positive, got 0"),
        (-5, 0, "period_ns must be positive, got -5"),
        (MS, -1, "spin_ns must be 0 to 1000000, got -1"),
        (HOUR, 2 * MS, "spin_ns must be 0 to 1000000, got 2000000"),
        (500, 501, "spin_ns must be 0 to 500, got 501"),
    ],
)
def test_impossible_times_are_refused(period_ns, spin_ns, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        CycleClock(period_ns, spin_ns)
