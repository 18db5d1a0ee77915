# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting_thread import waiting

from vla_edge_ros.runtime.deadline_watchdog import DeadlineWatchdog

MS = 1_000_000
HOUR = 3_600_000 * MS


def armed(cycle: int = 1, deadline_ns: int | None = None, period_ns: int = HOUR) -> DeadlineWatchdog:
    watchdog = DeadlineWatchdog(period_ns)
    watchdog.arm(cycle, time.monotonic_ns() + HOUR if deadline_ns is None else deadline_ns)
    return watchdog


def test_a_cycle_is_claimed_once():
    watchdog = armed()
    assert watchdog.claim(1) is True
    assert watchdog.claim(1) is False
    assert watchdog.claim(2) is True
    assert (watchdog.claimed_by_owner, watchdog.claimed_by_watchdog, watchdog.never_claimed) == (2, 0, 0)


def test_nothing_can_be_claimed_before_arm_after_disarm_and_after_stop():
    watchdog = DeadlineWatchdog(HOUR)
    assert not watchdog.claim(1)
    watchdog.arm(1, time.monotonic_ns() + HOUR)
    assert watchdog.claim(1)
    watchdog.disarm()
    assert not watchdog.claim(2)
    watchdog.arm(10, time.monotonic_ns() + HOUR)
    assert not watchdog.claim(9), "before the first armed cycle"
    assert watchdog.claim(10)
    watchdog.stop()
    assert not watchdog.claim(11)
    assert watchdog.wait() is None


@given(st.lists(st.integers(-5, 60), max_size=40))
def test_claims_rise_and_every_cycle_is_counted_once(cycles):
    watchdog = armed(cycle=0)
    highest = -1
    accepted = 0
    for cycle in cycles:
        assert watchdog.claim(cycle) is (cycle > highest)
        accepted += cycle > highest
        highest = max(highest, cycle)
    assert watchdog.claimed_by_owner == accepted
    assert watchdog.claimed_by_owner + watchdog.never_claimed == highest + 1


def test_an_overdue_cycle_is_the_watchdogs_and_a_late_claim_is_refused():
    watchdog = armed(cycle=7, deadline_ns=time.monotonic_ns() - 1)
    assert watchdog.wait() == 7
    assert watchdog.claim(7) is False
    assert watchdog.claim(8) is True
    assert (watchdog.claimed_by_owner, watchdog.claimed_by_watchdog) == (1, 1)


def test_a_stall_gives_every_periods_cycle_in_order_and_none_early():
    period = 5 * MS
    first_deadline = time.monotonic_ns() + period
    watchdog = armed(cycle=3, deadline_ns=first_deadline, period_ns=period)
    for expected in range(3, 15):
        assert watchdog.wait() == expected
        assert time.monotonic_ns() >= first_deadline + (expected - 3) * period


def test_a_watchdog_held_up_for_periods_answers_the_newest_overdue_cycle_and_counts_the_rest():
    """Fault A10: no burst after a suspended process."""
    period = 1000 * MS
    watchdog = armed(cycle=1, deadline_ns=time.monotonic_ns() - 10 * period - period // 2, period_ns=period)
    assert watchdog.wait() == 11
    assert (watchdog.claimed_by_watchdog, watchdog.never_claimed) == (1, 10)
    assert watchdog.claim(12)


def test_a_watchdog_one_period_late_still_answers_every_cycle():
    period = 1000 * MS
    watchdog = armed(cycle=1, deadline_ns=time.monotonic_ns() - period - period // 2, period_ns=period)
    assert [watchdog.wait(), watchdog.wait()] == [1, 2]
    assert watchdog.never_claimed == 0


def test_a_claimed_cycle_is_passed_over():
    period = 10 * MS
    first_deadline = time.monotonic_ns() + period
    watchdog = armed(cycle=1, deadline_ns=first_deadline, period_ns=period)
    assert watchdog.claim(4)
    assert watchdog.wait() == 5
    assert time.monotonic_ns() >= first_deadline + 4 * period
    assert watchdog.never_claimed == 3


@pytest.mark.parametrize("first_armed", [False, True])
@pytest.mark.parametrize("arm_again", [False, True])
def test_stop_ends_a_wait_in_progress(first_armed, arm_again):
    watchdog = armed() if first_armed else DeadlineWatchdog(HOUR)
    thread, answers = waiting(watchdog.wait)
    watchdog.stop()
    if arm_again:
        watchdog.arm(1, time.monotonic_ns() + HOUR)
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert answers == [None]


@pytest.mark.parametrize("first_armed", [False, True])
def test_arm_moves_a_wait_in_progress_to_the_new_deadline(first_armed):
    watchdog = armed() if first_armed else DeadlineWatchdog(HOUR)
    thread, answers = waiting(watchdog.wait)
    watchdog.arm(42, time.monotonic_ns())
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert answers == [42]


def test_gil_is_free_during_a_wait():
    """In a process of its own: with the GIL held, stop() could never be called."""
    program = (
        "import threading\n"
        "from vla_edge_ros.runtime.deadline_watchdog import DeadlineWatchdog\n"
        "watchdog = DeadlineWatchdog(1_000_000)\n"
        "thread = threading.Thread(target=watchdog.wait)\n"
        "thread.start()\n"
        "sum(range(1_000_000))\n"
        "watchdog.stop()\n"
        "thread.join()\n"
        "print('free')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "free\n", ran.stderr


@pytest.mark.parametrize("period_ns", [0, -1])
def test_a_period_must_be_positive(period_ns):
    with pytest.raises(ValueError, match=f"^period_ns must be positive, got {period_ns}$"):
        DeadlineWatchdog(period_ns)
