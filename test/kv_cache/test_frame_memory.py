# SPDX-License-Identifier: Apache-2.0
"""FrameMemory against a plain list that recomputes every similarity from scratch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vla_edge_ros.kv_cache.frame_memory import FrameEntry, FrameMemory

SIZE = 12
GRID = 2 * 2.0**-20  # similarities are rounded to half of this


def cosine(a: np.ndarray, b: np.ndarray, blank: float) -> float:
    if not a.any() or not b.any():
        return 1.0 if not a.any() and not b.any() else blank
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def filled(rows: np.ndarray, capacity: int = 64) -> FrameMemory:
    memory = FrameMemory(capacity, rows.shape[1])
    for i, row in enumerate(rows):
        memory.append(i, i * 1000, i, row)
    return memory


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    steps=st.lists(st.one_of(st.none(), st.floats(0, 1, exclude_max=True)), min_size=1, max_size=60),
    blank_share=st.sampled_from([0.0, 0.2]),
)
def test_every_view_equals_a_recomputation_after_any_history(seed, steps, blank_share):
    rng = np.random.default_rng(seed)
    memory, plain = FrameMemory(20, SIZE), []
    for number, step in enumerate(steps):
        if plain and (step is not None or len(plain) > 20):
            index = int((step or 0.0) * len(plain))
            sequence, stamp, page, _ = plain.pop(index)
            assert memory.remove(index) == FrameEntry(sequence, stamp, page)
        row = rng.normal(size=SIZE) * 10.0 ** rng.integers(-3, 4) * (rng.random() >= blank_share)
        memory.append(number * 2, number * 7, number % 5, row)
        plain.append((number * 2, number * 7, number % 5, row))

        assert len(memory) == len(plain)
        assert memory.seen == number + 1
        assert memory.sequences.tolist() == [entry[0] for entry in plain]
        assert memory.stamps_ns.tolist() == [entry[1] for entry in plain]
        assert memory.blocks.tolist() == [entry[2] for entry in plain]
        rows = [entry[3] for entry in plain]
        link = [cosine(a, b, blank=1.0) for a, b in zip(rows, rows[1:], strict=False)]
        skip = [cosine(a, b, blank=0.0) for a, b in zip(rows, rows[2:], strict=False)]
        np.testing.assert_allclose(memory.link, link, atol=GRID)
        np.testing.assert_allclose(memory.skip, ([0.0, *skip, 0.0] if len(rows) > 1 else [0.0]), atol=GRID)


class CountedMemory(FrameMemory):
    dots = 0

    @staticmethod
    def _dot(a, b):
        CountedMemory.dots += 1
        return FrameMemory._dot(a, b)


def test_a38_at_most_three_dots_an_append_and_two_a_removal():
    rng = np.random.default_rng(1)
    memory = CountedMemory(126, SIZE)
    for number in range(400):
        CountedMemory.dots = 0
        memory.append(number, number, 0, rng.normal(size=SIZE))
        assert CountedMemory.dots <= 3
        if len(memory) > 126:
            CountedMemory.dots = 0
            memory.remove(int(rng.integers(len(memory))))
            assert CountedMemory.dots <= 2


class ExactMemory(FrameMemory):
    @staticmethod
    def _dot(a, b):
        assert (a == np.rint(a)).all()
        assert (b == np.rint(b)).all()
        assert np.abs(a * b).sum() < 2.0**53
        return FrameMemory._dot(a, b)


@pytest.mark.parametrize("size", [1, 128, 1536, 4096])
def test_a33_every_dot_product_is_over_integers_whose_sums_a_float64_holds(size):
    rng = np.random.default_rng(8)
    memory = ExactMemory(8, size)
    rows = [rng.normal(size=size), np.ones(size), np.eye(1, size)[0], rng.normal(size=size) * 1e-30]
    for number, row in enumerate(rows * 4):
        memory.append(number, number, 0, row)
        if len(memory) > 8:
            memory.remove(3)


@settings(max_examples=200, deadline=None)
@given(
    size=st.integers(1, 512),
    levels=st.lists(st.floats(-255, 255).filter(bool), min_size=1, max_size=3),
    seed=st.integers(0, 2**31),
)
@example(size=512, levels=[1.0], seed=0)
@example(size=128, levels=[-3.0, 5.0], seed=0)
def test_similarities_stay_within_minus_one_and_one(size, levels, seed):
    """Pictures of few levels: all their components round the same way, and their length with them."""
    row = np.random.default_rng(seed).choice(levels, size)
    memory = filled(np.array([row, row, row, -row, row]))
    for similarities in (memory.link, memory.skip):
        assert (np.abs(similarities) <= 1.0).all()
    np.testing.assert_allclose(memory.link, [1, 1, -1, -1], atol=8 * GRID)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a35_descriptor_that_is_not_finite_is_refused_and_changes_nothing(bad):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(5, SIZE))
    memory = filled(rows)
    row = rng.normal(size=SIZE)
    row[7] = bad
    with pytest.raises(ValueError, match="finite"):
        memory.append(9, 9000, 9, row)
    assert memory.sequences.tolist() == [0, 1, 2, 3, 4]
    assert memory.seen == 5
    memory.append(9, 9000, 9, rows[4])
    assert memory.link[-1] == 1.0


def test_a35_blank_frame_is_a_duplicate_of_its_neighbours_but_vouches_for_nobody():
    rows = np.random.default_rng(3).normal(size=(5, SIZE))
    rows[2] = 0.0
    memory = filled(rows)
    assert memory.link[1] == memory.link[2] == 1.0
    assert memory.skip[1] == memory.skip[3] == 0.0
    assert memory.skip[2] == pytest.approx(cosine(rows[1], rows[3], 0.0), abs=GRID)
    memory.remove(3)
    assert memory.link[2] == 1.0


@pytest.mark.parametrize("sequence", [4, 3, -1])
def test_sequence_that_does_not_rise_is_refused(sequence):
    memory = filled(np.eye(5, SIZE))
    with pytest.raises(ValueError, match="above 4"):
        memory.append(sequence, 9000, 0, np.ones(SIZE))
    assert len(memory) == 5


@pytest.mark.parametrize("descriptor", [None, np.ones(SIZE + 1), np.ones((1, SIZE)), 1.0])
def test_descriptor_of_another_shape_is_refused(descriptor):
    with pytest.raises(ValueError, match=str(SIZE)):
        FrameMemory(4, SIZE).append(0, 0, 0, descriptor)


def test_memory_without_descriptors_keeps_order_pages_and_times():
    memory = FrameMemory(4, 0)
    for number in range(4):
        memory.append(number, number * 10, 9 - number, None)
    assert memory.remove(1) == FrameEntry(1, 10, 8)
    assert memory.blocks.tolist() == [9, 7, 6]
    assert memory.times_ns.tolist() == [0, 20, 30]


def test_one_frame_more_than_the_capacity_fits_until_the_eviction_and_no_second():
    memory = filled(np.eye(5, SIZE), capacity=4)
    with pytest.raises(AssertionError, match="evict"):
        memory.append(5, 5000, 0, np.ones(SIZE))


def test_times_rise_through_a_clock_that_jumps_back_stands_still_or_leaps():
    memory = FrameMemory(8, 0)
    second = 10**9
    epoch = 1_790_000_000 * second
    for number, stamp in enumerate([0, second, epoch, epoch, epoch - 50 * second, epoch - 49 * second]):
        memory.append(number, stamp, 0, None)
    assert np.diff(memory.times_ns).tolist() == [second, 60 * second, 1, 1, second]
    assert memory.stamps_ns[4] == epoch - 50 * second


def test_a33_similarity_is_exact_whatever_the_order_of_addition():
    """An integer dot product has one answer; a float32 one depends on how the BLAS splits it."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(2, 1536)).astype(np.float32)
    expected = filled(rows).link[0]
    for _ in range(50):
        order = rng.permutation(1536)
        assert filled(rows[:, order]).link[0] == expected


def test_a33_noise_below_a_millionth_is_a_tie():
    rng = np.random.default_rng(5)
    row = rng.normal(size=1536)
    rows = row * (1 + 1e-5 * rng.normal(size=(40, 1536)))
    assert (filled(rows).link == 1.0).all()
    assert (filled(rows).skip[1:-1] == 1.0).all()


def test_similarity_does_not_depend_on_length_even_at_the_ends_of_float32():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(2, SIZE))
    scaled = rows * np.array([[1e-38], [1e37]])
    assert filled(scaled).link[0] == pytest.approx(filled(rows).link[0], abs=2 * GRID)


def test_clear_forgets_frames_and_count():
    memory = filled(np.eye(5, SIZE))
    memory.clear()
    assert len(memory) == memory.seen == 0
    memory.append(0, 0, 0, np.ones(SIZE))
    assert memory.sequences.tolist() == [0]
    assert memory.skip.tolist() == [0.0]


def test_nothing_drifts_over_a_long_history():
    """The millionth similarity is computed from the same rows as the first."""
    rng = np.random.default_rng(7)
    memory = FrameMemory(126, SIZE)
    kept: list[np.ndarray] = []
    for number in range(20_000):
        row = rng.normal(size=SIZE)
        memory.append(number, number, 0, row)
        kept.append(row)
        if len(memory) > 126:
            index = int(rng.integers(len(memory)))
            memory.remove(index)
            del kept[index]
    link = [cosine(a, b, 1.0) for a, b in zip(kept, kept[1:], strict=False)]
    np.testing.assert_allclose(memory.link, link, atol=GRID)
