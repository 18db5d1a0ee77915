# SPDX-License-Identifier: Apache-2.0
"""Properties that hold for any work on any board."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.planner.boards import find_board
from vla_edge_ros.planner.coefficients import PassCost
from vla_edge_ros.planner.roofline import Span, fitted_ms, floor_ms, measured_ms, range_ms
from vla_edge_ros.planner.work import Work

BOARD = find_board("rtx-4060")
shares = st.floats(0.05, 1.0)
works = st.builds(
    lambda read, flop, layers, again: Work(read, flop, layers, read * again),
    st.floats(1e3, 1e12),
    st.floats(1e3, 1e16),
    st.integers(0, 200),
    st.floats(1.0, 1.5),
)
costs = st.builds(
    lambda us, share: PassCost(us, {"bf16": share, "int8": share / 2, "int4": share / 4}),
    st.floats(0, 100),
    shares,
)


def test_the_floor_is_bytes_over_bandwidth_or_operations_over_the_peak():
    assert floor_ms(Work(272e9, 1.0, 1, 272e9), BOARD) == pytest.approx(1000)
    assert floor_ms(Work(1.0, 30.2e12, 1, 1.0), BOARD) == pytest.approx(1000)


def test_expected_is_a_time_a_layer_and_the_stream():
    work, cost = Work(272e6, 0.0, 10, 272e6), PassCost(50.0, {"bf16": 0.5})
    assert fitted_ms(work, BOARD, cost, 0.5) == pytest.approx(10 * 0.05 + 2.0)


@given(works, costs, st.sampled_from(["bf16", "int8", "int4"]))
def test_nothing_is_faster_than_the_floor(work, cost, weights):
    floor = floor_ms(work, BOARD)
    assert floor <= measured_ms(work, BOARD, cost, weights).fast
    span = range_ms(work, BOARD, cost, cost, weights, 0.9, 1.0)
    assert floor <= span.fast <= span.slow


@given(works, costs, st.floats(1.0, 100.0), st.floats(1.0, 20.0))
def test_more_bandwidth_is_never_slower(work, cost, factor, slow_down):
    faster = replace(BOARD, bandwidth_gb_s=BOARD.bandwidth_gb_s * factor)
    for each in (
        lambda board: Span(floor_ms(work, board), 0),
        lambda board: measured_ms(work, board, cost, "int8"),
        lambda board: range_ms(work, board, cost, cost, "int8", 0.9, slow_down),
    ):
        before, after = each(BOARD), each(faster)
        assert after.fast <= before.fast and after.slow <= before.slow


@given(works, costs, works, st.floats(1.0, 20.0))
def test_more_work_is_never_faster(work, cost, more, slow_down):
    both = Work(
        work.bytes + more.bytes,
        work.flop + more.flop,
        work.layers + more.layers,
        # Streamed again in the same proportion: a mixture of two would have another factor.
        (work.bytes + more.bytes) * work.stream_bytes / work.bytes,
    )
    before = range_ms(work, BOARD, cost, cost, "int4", 0.9, slow_down)
    after = range_ms(both, BOARD, cost, cost, "int4", 0.9, slow_down)
    assert before.fast <= after.fast * (1 + 1e-9) and before.slow <= after.slow * (1 + 1e-9)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (Span(0.041, 0.041), "0.04 ms"),
        (Span(7.94, 7.96), "7.9 to 8.0 ms"),
        (Span(67.04, 265.4), "67.0 to 265 ms"),
        (Span(0.9, 1234.4), "0.90 to 1234 ms"),
    ],
)
def test_a_span_is_said_with_the_digits_that_it_has(span, words):
    assert span.words() == words


def test_spans_add_and_scale():
    assert Span(1, 2) + Span(3, 5) == Span(4, 7) and Span(1, 2).times(7) == Span(7, 14)
