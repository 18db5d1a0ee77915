# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from itertools import count

import pytest

from vla_edge_ros.replay.read_ahead import ReadAhead

WAIT_S = 10.0


def drain(ahead: ReadAhead) -> list:
    items = []
    while not ahead.is_over():
        item = ahead.take()
        if item is None:
            threading.Event().wait(0.001)
        else:
            items.append(item)
    return items


def test_items_come_out_in_order_and_then_it_is_over():
    ahead = ReadAhead(iter(range(1, 500)), depth=3)
    ahead.start()
    ahead.wait_ready()
    assert drain(ahead) == list(range(1, 500))
    assert ahead.take() is None
    ahead.stop()


def test_it_reads_no_further_ahead_than_its_depth(wait_until):
    taken = []
    ahead = ReadAhead((taken.append(i) or i + 1 for i in count()), depth=4)
    ahead.start()
    wait_until(lambda: len(taken) == 4)
    for number in range(1, 20):
        wait_until(lambda: len(taken) == 3 + number)  # noqa: B023
        assert ahead.take() == number
    wait_until(lambda: len(taken) == 23)
    threading.Event().wait(0.02)
    assert len(taken) == 23
    ahead.stop()


def test_taking_never_waits_for_a_slow_decoder():
    go = threading.Event()

    def slow():
        yield 1
        go.wait(WAIT_S)
        yield 2

    ahead = ReadAhead(slow())
    ahead.start()
    ahead.wait_ready()
    assert ahead.take() == 1
    assert ahead.take() is None and not ahead.is_over()
    go.set()
    assert drain(ahead) == [2]
    ahead.stop()


def test_an_error_comes_after_the_items_before_it():
    def failing():
        yield 1
        yield 2
        raise ValueError("broken")

    ahead = ReadAhead(failing())
    ahead.start()
    ahead._thread.join(WAIT_S)
    assert not ahead.is_over()
    assert (ahead.take(), ahead.take(), ahead.take()) == (1, 2, None)
    with pytest.raises(ValueError, match="broken"):
        ahead.is_over()
    ahead.stop()


def test_nothing_to_read_is_over_at_once(wait_until):
    ahead = ReadAhead(iter(()))
    ahead.start()
    ahead.wait_ready()
    wait_until(ahead.is_over)
    ahead.stop()


def test_stop_ends_a_reader_that_waits_for_room():
    ahead = ReadAhead(iter(count(1)), depth=2)
    ahead.start()
    ahead.wait_ready()
    ahead.stop()
    assert not ahead._thread.is_alive()
    ahead.stop()


def test_stop_without_start_and_wait_after_stop_return():
    ahead = ReadAhead(iter(count(1)))
    ahead.stop()
    ahead.wait_ready()
