# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import mmap
import os
import sys
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vla_edge_ros.runtime.frame_slot import FrameSlot

HEIGHT, WIDTH = 4, 6


def picture(value: int, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    return np.full((height, width, 3), value % 251, np.uint8)


def test_nothing_before_the_first_frame():
    assert FrameSlot(HEIGHT, WIDTH).latest() is None


def test_latest_is_the_newest_frame_and_new_once():
    slot = FrameSlot(HEIGHT, WIDTH)
    assert slot.write(picture(7), stamp_ns=-5) is False
    assert slot.write(picture(8), stamp_ns=2**62) is True
    first, again = slot.latest(), slot.latest()
    assert (first.sequence, first.stamp_ns, first.is_new) == (2, 2**62, True)
    assert (again.sequence, again.stamp_ns, again.is_new) == (2, 2**62, False)
    np.testing.assert_array_equal(first.pixels, picture(8))
    assert (slot.written, slot.overwritten, slot.taken) == (2, 1, 1)


def test_view_is_read_only_for_ever_and_no_copy():
    slot = FrameSlot(HEIGHT, WIDTH)
    slot.write(picture(1), 0)
    pixels, same = slot.latest().pixels, slot.latest().pixels
    with pytest.raises(ValueError, match="read-only"):
        pixels[0, 0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        pixels.setflags(write=True)
    assert np.shares_memory(pixels, same)
    address = pixels.__array_interface__["data"][0]
    assert slot.memory_address <= address < slot.memory_address + slot.memory_bytes


def test_memory_is_whole_pages_and_holds_every_slot():
    slot = FrameSlot(64, 128, leases=4)
    assert slot.memory_address % mmap.PAGESIZE == 0
    assert slot.memory_bytes % mmap.PAGESIZE == 0
    assert slot.memory_bytes >= (4 + 2) * 64 * 128 * 3


def test_held_view_stays_unchanged_while_ten_frames_pass():
    slot = FrameSlot(HEIGHT, WIDTH)
    slot.write(picture(1), 0)
    held = slot.latest().pixels
    for value in range(2, 12):
        slot.write(picture(value), 0)
        np.testing.assert_array_equal(slot.latest().pixels, picture(value))
    np.testing.assert_array_equal(held, picture(1))


def test_slice_of_a_view_keeps_slot_and_memory_after_frame_and_slot_are_gone():
    slot = FrameSlot(HEIGHT, WIDTH)
    slot.write(picture(9), 0)
    row = slot.latest().pixels[1:2]
    for value in range(10):
        slot.write(picture(value), 0)
        slot.latest()
    del slot
    gc.collect()
    np.testing.assert_array_equal(row, picture(9)[1:2])


def test_reader_is_refused_when_every_lease_is_held_and_writer_is_not():
    slot = FrameSlot(HEIGHT, WIDTH, leases=2)
    held = []
    for value in (1, 2):
        slot.write(picture(value), 0)
        held.append(slot.latest())
    slot.write(picture(3), 0)
    for _ in range(2):
        with pytest.raises(BufferError, match="all 2 leases"):
            slot.latest()
    assert slot.write(picture(4), 0) is True
    del held[0]
    newest = slot.latest()
    assert (newest.sequence, newest.is_new) == (4, True)
    np.testing.assert_array_equal(held[0].pixels, picture(2))


@pytest.mark.parametrize(
    ("pixels", "got"),
    [
        (picture(1).astype(np.int8), r"int8 \(4, 6, 3\) C-contiguous"),
        (picture(1).astype(np.float32), r"float32 \(4, 6, 3\) C-contiguous"),
        (picture(1, WIDTH, HEIGHT), r"uint8 \(6, 4, 3\) C-contiguous"),
        (picture(1)[..., :2], r"uint8 \(4, 6, 2\) not C-contiguous"),
        (picture(1)[:, ::-1], r"uint8 \(4, 6, 3\) not C-contiguous"),
        (np.asfortranarray(picture(1)), r"uint8 \(4, 6, 3\) not C-contiguous"),
        (picture(1).ravel(), r"uint8 \(72,\) C-contiguous"),
        (picture(1)[:0], r"uint8 \(0, 6, 3\) C-contiguous"),
        (np.uint8(3), "a uint8"),
        (picture(1).tobytes(), "a bytes"),
        (None, "a NoneType"),
    ],
)
def test_write_names_expected_and_got(pixels, got):
    slot = FrameSlot(HEIGHT, WIDTH)
    expected = r"^expected pixels uint8 \(4, 6, 3\) C-contiguous, got "
    with pytest.raises(ValueError, match=expected + got + "$"):
        slot.write(pixels, 0)
    assert slot.written == 0 and slot.latest() is None


@pytest.mark.parametrize(
    "arguments", [(0, 6), (4, 0), (4, 6, 0), (4, 6, 3, 0), (4, 6, 3, 10**12), (2**40, 6)], ids=str
)
def test_impossible_sizes_are_refused(arguments):
    with pytest.raises(ValueError, match="must be 1 to"):
        FrameSlot(*arguments)


def test_the_writer_may_move_from_thread_to_thread():
    slot = FrameSlot(HEIGHT, WIDTH)
    for value in range(1, 6):
        thread = threading.Thread(target=slot.write, args=(picture(value), value))
        thread.start()
        thread.join()
        frame = slot.latest()
        assert (frame.sequence, frame.stamp_ns) == (value, value)
        np.testing.assert_array_equal(frame.pixels, picture(value))
    assert slot.refused_writes == 0


def test_a_write_that_overlaps_another_is_refused_counted_and_changes_nothing():
    """Two threads begin to write at the same time, until one of them is found in the other's copy."""
    slot = FrameSlot(1024, 1024)
    frames = [np.full((1024, 1024, 3), value, np.uint8) for value in (1, 2)]
    start, errors = threading.Barrier(2), []

    def write_until_refused(me: int) -> None:
        for _ in range(500):
            start.wait(10)
            try:
                slot.write(frames[me], me)
            except RuntimeError as error:
                errors.append(str(error))
            start.wait(10)
            if errors:
                return

    threads = [threading.Thread(target=write_until_refused, args=(me,)) for me in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and all("must not overlap" in error for error in errors)
    assert slot.refused_writes == len(errors)
    frame = slot.latest()
    assert frame.sequence == slot.written
    np.testing.assert_array_equal(frame.pixels, frames[frame.stamp_ns])
    slot.write(frames[0], 0)  # the refusal ended nothing


def test_other_threads_run_during_the_copy():
    """With a switch interval of hours a thread runs only where another gives the GIL up by itself."""
    slot = FrameSlot(2048, 2048)
    frame = np.zeros((2048, 2048, 3), np.uint8)
    turns, done, progressed = 0, threading.Event(), []

    def write():
        for _ in range(50):
            before = turns
            slot.write(frame, 0)
            progressed.append(turns > before)
            if progressed[-1]:
                break
        done.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(10_000)
    try:
        thread = threading.Thread(target=write)
        thread.start()
        while not done.is_set():
            turns += 1
            os.sched_yield()  # gives the GIL up
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert any(progressed)


def test_frames_seen_by_a_reading_thread_are_whole_and_in_order():
    slot = FrameSlot(64, 128)
    seen, done = [], threading.Event()

    def read():
        while not done.is_set():
            frame = slot.latest()
            if frame is not None and frame.is_new:
                low, high = int(frame.pixels.min()), int(frame.pixels.max())
                seen.append((frame.sequence, low == high == frame.sequence % 251))

    thread = threading.Thread(target=read)
    thread.start()
    while len(seen) < 200:
        slot.write(picture(slot.written + 1, 64, 128), 0)
    done.set()
    thread.join()
    sequences = [sequence for sequence, _ in seen]
    assert sequences == sorted(set(sequences))
    assert all(whole for _, whole in seen)


class AnyOrder(RuleBasedStateMachine):
    """Writes, reads and dropped views in any order, beside a list of what was written."""

    def __init__(self):
        super().__init__()
        self.leases = 2
        self.slot = FrameSlot(HEIGHT, WIDTH, leases=self.leases)
        self.stamps: list[int] = []
        self.taken = 0
        self.reads = 0
        self.held = []

    @rule(stamp_ns=st.integers(-(2**63), 2**63 - 1))
    def write(self, stamp_ns):
        unread = len(self.stamps) > self.taken
        self.stamps.append(stamp_ns)
        assert self.slot.write(picture(len(self.stamps)), stamp_ns) is unread

    @rule(keep=st.booleans())
    def latest(self, keep):
        newest, is_new = len(self.stamps), len(self.stamps) > self.taken
        if is_new and len({frame.sequence for frame in self.held}) == self.leases:
            with pytest.raises(BufferError):
                self.slot.latest()
            return
        frame = self.slot.latest()
        if newest == 0:
            assert frame is None
            return
        assert (frame.sequence, frame.is_new, frame.stamp_ns) == (newest, is_new, self.stamps[-1])
        np.testing.assert_array_equal(frame.pixels, picture(newest))
        self.reads += is_new
        self.taken = newest
        if keep:
            self.held.append(frame)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data):
        del self.held[data.draw(st.integers(0, len(self.held) - 1))]

    @invariant()
    def held_frames_never_change(self):
        for frame in self.held:
            np.testing.assert_array_equal(frame.pixels, picture(frame.sequence))

    @invariant()
    def every_frame_is_accounted_for(self):
        unread = len(self.stamps) > self.taken
        assert (self.slot.written, self.slot.taken) == (len(self.stamps), self.reads)
        assert self.slot.overwritten + self.slot.taken + unread == self.slot.written


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
