# SPDX-License-Identifier: Apache-2.0
"""From work to time: a floor that no kernel passes, and what is to be expected of these kernels.

The floor of a stage is its bytes over the peak bandwidth, or its operations over the tensor cores' peak,
whichever is longer. What is expected is, for each layer, a time that does not shrink with the layer, and
beside it the stream of the weights at a share of the peak.

Only one board was measured. For another one a range is given. Its fast end is that board's best: the share of
the peak that its stream reaches without arithmetic, and its time a layer. Its slow end is the longer one of
two: the floor times what that board's *whole* pass, overheads included, takes over its own floor in the same
format and the sizes that were fitted; and its slower kind of pass, with the share of the peak that the format
reaches. Neither end is a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from vla_edge_ros.planner.boards import Board
from vla_edge_ros.planner.coefficients import PassCost
from vla_edge_ros.planner.work import Work


@dataclass(frozen=True, slots=True)
class Span:
    """Milliseconds from ``fast`` to ``slow``; one number where the board was measured."""

    fast: float
    slow: float

    def __add__(self, other: Span) -> Span:
        return Span(self.fast + other.fast, self.slow + other.slow)

    def times(self, factor: float) -> Span:
        return Span(factor * self.fast, factor * self.slow)

    def words(self) -> str:
        """``7.9 ms``, or ``67 to 265 ms``."""
        fast, slow = _digits(self.fast), _digits(self.slow)
        return f"{fast} ms" if fast == slow else f"{fast} to {slow} ms"


def _digits(ms: float) -> str:
    return f"{ms:.2f}" if ms < 0.995 else f"{ms:.1f}" if ms < 99.95 else f"{ms:.0f}"


def floor_ms(work: Work, board: Board) -> float:
    """The least time on ``board``, whoever writes the kernels."""
    read_ms = work.bytes / (board.bandwidth_gb_s * 1e6)
    return max(read_ms, work.flop / (board.bf16_tflops * 1e9))


def fitted_ms(work: Work, board: Board, cost: PassCost, share: float) -> float:
    """A time a layer, and the stream at ``share`` of the peak; never below the floor."""
    stream_ms = work.stream_bytes / (share * board.bandwidth_gb_s * 1e6)
    return max(work.layers * cost.layer_us / 1000 + stream_ms, floor_ms(work, board))


def measured_ms(work: Work, board: Board, cost: PassCost, weights: str) -> Span:
    """One pass on the board that was measured."""
    expected = fitted_ms(work, board, cost, cost.share[weights])
    return Span(expected, expected)


def range_ms(
    work: Work,
    board: Board,
    cost: PassCost,
    slower: PassCost,
    weights: str,
    best_share: float,
    slow_down: float,
) -> Span:
    """One pass on another board. ``slower``: the measured board's slower kind of such a pass, or ``cost``.

    ``slow_down``: expected over floor of the measured board in the fitted sizes.
    """
    fast = fitted_ms(work, board, cost, max(best_share, cost.share[weights]))
    scaled = slow_down * floor_ms(work, board) * work.stream_bytes / work.bytes
    return Span(fast, max(fast, scaled, fitted_ms(work, board, slower, slower.share[weights])))
