# SPDX-License-Identifier: Apache-2.0
"""Where a signal breaks work off, and where it only asks."""

from __future__ import annotations

import signal
import threading

import pytest

pytest.importorskip("rclpy", reason="spin needs rclpy")

from vla_edge_ros.ros import spin  # noqa: E402
from vla_edge_ros.ros.interrupts import Interrupted, allow_work, break_off, breakable  # noqa: E402


@pytest.fixture(autouse=True)
def no_break_is_asked():
    allow_work()
    yield
    allow_work()


@pytest.fixture
def handlers():
    """The process's own handlers, as they were."""
    before = {number: signal.getsignal(number) for number in spin.SIGNALS}
    yield before
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_block_is_broken_off_once_and_the_next_one_does_not_begin():
    with pytest.raises(Interrupted), breakable():
        break_off()
    break_off()  # while somebody cleans up
    with pytest.raises(Interrupted), breakable():
        pytest.fail("began although the process is to end")


def test_a_request_during_the_clean_up_inside_the_block_changes_nothing():
    cleaned = []
    with pytest.raises(Interrupted), breakable():
        try:
            break_off()
        finally:
            break_off()
            cleaned.append(True)
    assert cleaned


def test_outside_of_a_block_nothing_is_broken_off():
    with breakable():
        pass
    break_off()


def test_a_block_in_another_thread_does_not_let_the_main_thread_be_broken_off():
    inside, over = threading.Event(), threading.Event()

    def work():
        with breakable():
            inside.set()
            over.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10)
    break_off()
    over.set()
    thread.join()


@pytest.mark.parametrize("number", spin.SIGNALS)
def test_a_signal_asks_and_breaks_off_what_is_breakable(handlers, number):
    stop = spin.StopRequest()
    with stop.signals_caught():
        with pytest.raises(Interrupted), breakable():
            signal.raise_signal(number)
        assert stop.is_requested()
        signal.raise_signal(number)
    assert signal.getsignal(number) is signal.SIG_IGN, "a process that is to end does so in peace"


def test_without_a_signal_the_handlers_are_those_from_before(handlers):
    with spin.StopRequest().signals_caught():
        pass
    assert {number: signal.getsignal(number) for number in spin.SIGNALS} == handlers


def test_a_callback_that_hangs_is_left_by_a_later_signal_and_not_by_an_early_one(handlers, monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(spin.time, "monotonic", lambda: now_s[0])
    stop = spin.StopRequest()
    with stop.signals_caught():
        stop.spinning()
        signal.raise_signal(signal.SIGINT)
        now_s[0] += spin.PATIENCE_S
        signal.raise_signal(signal.SIGINT)  # it may yet come back
        now_s[0] += 0.1
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
