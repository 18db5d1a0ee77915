# SPDX-License-Identifier: Apache-2.0
"""The thread to the disk: order, bounds, failures; the caller never waits."""

from __future__ import annotations

import threading

import pytest

from vla_edge_ros.recording import background_writer
from vla_edge_ros.recording.background_writer import BackgroundWriter


class Gate:
    """A disk that hangs until it is opened."""

    def __init__(self):
        self.entered = threading.Event()
        self.open = threading.Event()
        self.written = []

    def write(self, items):
        self.entered.set()
        assert self.open.wait(30)
        self.written += items


def test_items_are_written_in_order_and_all_before_close_returns():
    written = []
    writer = BackgroundWriter("test", written.extend, limit=100_000)
    for number in range(5000):
        assert writer.put(number)
    writer.close()
    assert written == list(range(5000))
    assert (writer.dropped, writer.error) == (0, "")


def test_caller_does_not_wait_for_a_disk_that_hangs_and_what_does_not_fit_is_counted():
    gate = Gate()
    writer = BackgroundWriter("test", gate.write, limit=10)
    writer.put(0)
    assert gate.entered.wait(30)
    accepted = [writer.put(number) for number in range(1, 21)]  # returns although nothing can be written
    assert accepted == [True] * 9 + [False] * 11
    gate.open.set()
    writer.close()
    assert gate.written == list(range(10))
    assert writer.dropped == 11


def test_limit_counts_sizes_where_sizes_are_given():
    gate = Gate()
    writer = BackgroundWriter("test", gate.write, limit=100)
    assert writer.put(b"first", size=60)
    assert not writer.put(b"too much", size=41)
    assert writer.put(b"fits", size=40)
    gate.open.set()
    writer.close()
    assert gate.written == [b"first", b"fits"]


def test_space_is_given_back_once_written(wait_until):
    gate = Gate()
    gate.open.set()
    writer = BackgroundWriter("test", gate.write, limit=1)
    for number in range(50):
        wait_until(lambda number=number: writer.put(number))
    writer.close()
    assert gate.written == list(range(50))


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("broken row")])
def test_failure_stops_the_writing_not_the_caller_and_is_told(error, caplog):
    def fail(items):
        raise error

    writer = BackgroundWriter("test", fail, limit=100)
    writer.put(1)
    writer.close()
    assert not writer.put(2)
    assert writer.error == str(error)
    assert writer.dropped == 2
    assert "test stopped" in caplog.text


def test_nothing_is_written_after_a_failure(wait_until):
    calls = []

    def fail_once(items):
        calls.append(list(items))
        raise OSError("gone")

    writer = BackgroundWriter("test", fail_once, limit=100)
    writer.put(1)
    wait_until(lambda: writer.error)
    assert not writer.put(2)
    writer.close()
    assert calls == [[1]]


def test_put_after_close_is_dropped_and_close_twice_is_safe():
    written = []
    writer = BackgroundWriter("test", written.extend, limit=10)
    writer.close()
    writer.close()
    assert not writer.put(1)
    assert (written, writer.dropped) == ([], 1)


def test_what_was_written_to_is_finished_last_also_after_a_failure():
    calls = []

    def write(items):
        calls.append(items)
        raise OSError("gone")

    writer = BackgroundWriter("test", write, limit=10, finish=lambda: calls.append("finish"))
    writer.put(1)
    writer.close()
    writer.close()
    assert calls == [[1], "finish"]


def test_failure_to_finish_is_told_and_not_raised(caplog):
    def finish():
        raise OSError("disk full")

    writer = BackgroundWriter("test", lambda items: None, limit=10, finish=finish)
    writer.close()
    assert writer.error == "disk full" and "test stopped" in caplog.text


def test_close_gives_up_on_a_disk_that_hangs(monkeypatch):
    monkeypatch.setattr(background_writer, "CLOSE_S", 0.01)
    gate = Gate()
    writer = BackgroundWriter("test", gate.write, limit=10)
    writer.put(1)
    assert gate.entered.wait(30)
    writer.close()  # returns
    assert gate.written == []
    gate.open.set()


def test_two_threads_may_put():
    written = []
    writer = BackgroundWriter("test", written.extend, limit=100_000)
    threads = [
        threading.Thread(target=lambda base=base: [writer.put(base + i) for i in range(2000)])
        for base in (0, 10_000)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert [n for n in written if n < 10_000] == list(range(2000))
    assert [n for n in written if n >= 10_000] == list(range(10_000, 12_000))
