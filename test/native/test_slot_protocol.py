# SPDX-License-Identifier: Apache-2.0
"""The slot's protocol as a model, and every interleaving of its atomic steps.

A frame is two halves, written one at a time, both holding the frame's sequence number; a view is read whole
in every state in which it is held. The same explorer is given the seed's two-slot buffer and three damaged
versions of the protocol, and must find each fault.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

WRITES = 6
VIEWS = 3  # views held at once, several of one frame included


class View(NamedTuple):
    slot: int
    sequence: int


class Slot(NamedTuple):
    """One state of FrameSlot: what the slots hold, where they are, and where each thread stands."""

    halves: tuple[tuple[int, int], ...]
    back: int
    middle: tuple[int, bool]  # index, unread
    kept: tuple[int, ...]
    front: int = -1
    views: tuple[View, ...] = ()
    newest: int = 0  # highest sequence that was lent
    writer_at: str = "first half"
    written: int = 0
    swapped: int = -1  # the damaged writer's non-atomic swap
    reader_at: str = "look"
    spare: int = -1

    def fill(self, half: int) -> Slot:
        pair = list(self.halves[self.back])
        pair[half] = self.written + 1
        halves = list(self.halves)
        halves[self.back] = tuple(pair)
        return self._replace(halves=tuple(halves))

    def lend(self, violated) -> Slot:
        first, second = self.halves[self.front]
        if first != second:
            raise violated("torn")
        if first < self.newest:
            raise violated("sequence went back")
        return self._replace(views=(*self.views, View(self.front, first)), newest=first, reader_at="look")


def slot_steps(violated, fault: str = ""):
    def check(state: Slot) -> None:
        places = (state.back, state.middle[0], *state.kept)
        if sorted(places) != list(range(len(state.halves))) and state.swapped < 0:
            raise violated("a slot is in two places")
        for view in state.views:
            if state.halves[view.slot] != (view.sequence, view.sequence):
                raise violated("changed while held")

    def writer(state: Slot):
        at = state.writer_at
        if at == "first half" and state.written < WRITES:
            yield "write first half", state.fill(0)._replace(writer_at="second half")
        elif at == "second half":
            yield "write second half", state.fill(1)._replace(writer_at="publish")
        elif at == "publish" and fault == "swap in two steps":
            yield "read middle", state._replace(swapped=state.middle[0], writer_at="store")
        elif at == "store":
            yield "store middle", state._replace(
                back=state.swapped, middle=(state.back, True), swapped=-1, written=state.written + 1,
                writer_at="first half",
            )  # fmt: skip
        elif at == "publish":
            label = "overwrite" if state.middle[1] else "publish"
            yield label, state._replace(
                back=state.middle[0], middle=(state.back, True), written=state.written + 1,
                writer_at="first half",
            )  # fmt: skip

    def reader(state: Slot):
        held = {view.slot for view in state.views}
        if state.reader_at == "take":
            index, _ = state.middle
            kept = tuple(index if slot == state.spare else slot for slot in state.kept)
            taken = state._replace(middle=(state.spare, False), kept=kept, front=index)
            if fault == "publish bit kept":
                taken = taken._replace(middle=(state.spare, True))
            yield "take", taken.lend(violated)
        elif len(state.views) < VIEWS:
            _, unread = state.middle
            free = [slot for slot in state.kept if slot not in held or fault == "leases ignored"]
            if unread and free:
                yield "look", state._replace(spare=free[0], reader_at="take")
            elif unread:
                yield "refuse", state
            elif state.front >= 0:
                yield "lend again", state.lend(violated)

    def drop(state: Slot):
        for i in range(len(state.views)):  # by any thread, at any time
            yield "drop view", state._replace(views=state.views[:i] + state.views[i + 1 :])

    def steps(state: Slot):
        check(state)
        yield from writer(state)
        yield from reader(state)
        yield from drop(state)

    return steps


def slot_with(leases: int) -> Slot:
    return Slot(halves=((0, 0),) * (leases + 2), back=0, middle=(1, False), kept=tuple(range(2, leases + 2)))


@pytest.mark.parametrize("leases", [1, 2, 3])
def test_no_interleaving_tears_aliases_or_goes_back(explore, violated, leases):
    result = explore(slot_with(leases), slot_steps(violated))
    assert result.rule == "", result.trace
    everything = {"write first half", "write second half", "publish", "overwrite", "look", "take"}
    everything |= {"lend again", "drop view"} | ({"refuse"} if leases < VIEWS else set())
    assert result.labels == everything
    assert result.states > 1000


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("leases ignored", "changed while held"),
        ("swap in two steps", "a slot is in two places"),
        ("publish bit kept", "sequence went back"),
    ],
)
def test_explorer_finds_the_fault_in_a_damaged_protocol(explore, violated, fault, rule):
    result = explore(slot_with(2), slot_steps(violated, fault))
    assert result.rule == rule
    assert result.trace


class Writers(NamedTuple):
    """Several writers of one slot with one lease; each frame's number names its writer."""

    at: tuple[str, ...]
    counts: tuple[int, ...]
    halves: tuple[tuple[int, int], ...] = ((0, 0),) * 3
    back: int = 0
    middle: int = 1
    unread: bool = False
    kept: int = 2
    is_turn_taken: bool = False


def writers_steps(violated, fault: str = ""):
    def put(values: tuple, index: int, value) -> tuple:
        return (*values[:index], value, *values[index + 1 :])

    def writer(state: Writers, me: int):
        at, number = state.at[me], 10 * me + state.counts[me] + 1
        moved = state._replace(at=put(state.at, me, "idle"))
        if at == "idle" and state.counts[me] < 2:
            if state.is_turn_taken and fault != "turn ignored":
                yield "refuse", state
            else:
                yield "take turn", state._replace(at=put(state.at, me, "first"), is_turn_taken=True)
        elif at in ("first", "second"):
            pair = put(state.halves[state.back], at == "second", number)
            following = {"first": "second", "second": "publish"}[at]
            if fault == "turn given back early" and following == "publish":
                state = state._replace(is_turn_taken=False)
            yield (
                f"write {at} half",
                state._replace(halves=put(state.halves, state.back, pair), at=put(state.at, me, following)),
            )
        elif at == "publish":
            yield (
                "publish",
                moved._replace(
                    at=put(state.at, me, "give back"), back=state.middle, middle=state.back, unread=True
                ),
            )
        elif at == "give back":
            yield (
                "give turn back",
                moved._replace(counts=put(state.counts, me, state.counts[me] + 1), is_turn_taken=False),
            )

    def steps(state: Writers):
        if len({state.back, state.middle, state.kept}) < 3:
            raise violated("a slot is in two places")
        for me in range(len(state.at)):
            yield from writer(state, me)
        if state.unread:
            first, second = state.halves[state.middle]
            if first != second:
                raise violated("torn")
            yield "take", state._replace(middle=state.kept, kept=state.middle, unread=False)

    return steps


@pytest.mark.parametrize("writers", [2, 3])
def test_writers_that_take_turns_never_tear(explore, violated, writers):
    result = explore(Writers(at=("idle",) * writers, counts=(0,) * writers), writers_steps(violated))
    assert result.rule == "", result.trace
    assert {"take turn", "refuse", "write second half", "give turn back", "take"} <= result.labels


@pytest.mark.parametrize("fault", ["turn ignored", "turn given back early"])
def test_explorer_finds_the_tear_of_writers_that_overlap(explore, violated, fault):
    result = explore(Writers(at=("idle",) * 2, counts=(0, 0)), writers_steps(violated, fault))
    assert result.rule == "torn", result.trace


class TwoSlots(NamedTuple):
    """The seed: write into the slot that is not published, then publish by raising the version."""

    halves: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    version: int = 0
    writer_at: str = "first half"
    copying: int = -1  # the slot that the reader copies from
    first: int = -1


def two_slot_steps(violated):
    def steps(state: TwoSlots):
        target = (state.version + 1) % 2
        number = state.version + 1
        old = state.halves[target]
        if state.writer_at == "publish":
            yield "publish", state._replace(version=number, writer_at="first half")
        elif state.version < WRITES:
            half = ("first half", "second half").index(state.writer_at)
            new = (number, old[1]) if half == 0 else (old[0], number)
            halves = tuple(new if slot == target else state.halves[slot] for slot in (0, 1))
            following = "second half" if half == 0 else "publish"
            yield f"write {state.writer_at}", state._replace(halves=halves, writer_at=following)

        if state.copying < 0:
            if state.version > 0:
                yield "read version", state._replace(copying=state.version % 2)
        elif state.first < 0:
            yield "copy first half", state._replace(first=state.halves[state.copying][0])
        else:
            if state.halves[state.copying][1] != state.first:
                raise violated("torn")
            yield "copy second half", state._replace(copying=-1, first=-1)

    return steps


def test_explorer_finds_the_tear_of_the_two_slot_buffer(explore, violated):
    result = explore(TwoSlots(), two_slot_steps(violated))
    assert result.rule == "torn"
    # The known condition: one publish and the start of the next write fall between the reader's two halves.
    began = result.trace.index("read version")
    assert "publish" in result.trace[began:]
    assert result.trace[-1].startswith(("write", "copy first half"))
