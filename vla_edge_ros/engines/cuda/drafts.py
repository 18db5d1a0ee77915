# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding with drafts: what one pass over guessed tokens settles.

A pass takes the last token that is sure and the guesses behind it, and predicts behind each of them what
plain decoding would choose if they were right (Leviathan et al. 2023, Chen et al. 2023, in their greedy
form). Up to the first wrong guess they are, and the prediction in its place is right too.
"""

from __future__ import annotations

from collections.abc import Sequence


def accept(tokens: Sequence[int], predicted: Sequence[int], drafted: Sequence[int]) -> list[int]:
    """``tokens`` and those that a pass over its last one and ``drafted`` has settled.

    ``predicted``: at least ``1 + len(drafted)`` token ids, the choice behind each row of that pass.
    """
    settled = [*tokens, int(predicted[0])]
    for row, guess in enumerate(drafted, start=1):
        if guess != settled[-1]:
            break
        settled.append(int(predicted[row]))
    return settled


def rest_of(draft: Sequence[int], settled: int, count: int) -> Sequence[int]:
    """The guesses that are still to be tried once ``settled`` of ``count`` tokens are sure.

    The last token of an action is predicted and never an input.
    """
    return draft[settled : count - 1]


def passes_needed(truth: Sequence[int], draft: Sequence[int]) -> int:
    """Passes, the prefill included, until all of ``truth`` is settled with ``draft`` as the guess."""
    settled = accept([], truth, rest_of(draft, 0, len(truth)))
    passes = 1
    while len(settled) < len(truth):
        at = len(settled)
        settled = accept(settled, truth[at:], rest_of(draft, at, len(truth)))
        passes += 1
    return passes
