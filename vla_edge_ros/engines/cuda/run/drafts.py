# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding with drafts: what one pass over guessed tokens settles.

A pass takes the last token that is sure and the guesses behind it, and predicts behind each of them what
plain decoding would choose if they were right (Leviathan et al. 2023, Chen et al. 2023, in their greedy
form). Up to the first wrong guess they are, and the prediction in its place is right too.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_IN_VAIN = 2  # passes in a row that settle no guess, the prefill included


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


class DraftedTokens:
    """An action's tokens as its passes settle them, and which guesses are worth another pass.

    Where none are, plain decode steps do the rest. A pass over guesses takes as long as 1.4 plain steps
    (docs/benchmarks/chunk-h200.json): it pays where one of them is right. In recorded runs a draft holds
    whole or hardly at all, so two passes in a row that settle no guess end the guessing, and a wrong draft
    costs little more than none (docs/explanation/engine-log.md).
    """

    def __init__(self, draft: Sequence[int]):
        """``draft``: the tokens that are expected, from the action's first on; may be empty."""
        self.tokens: list[int] = []
        self._draft = draft
        self._in_vain = 0  # passes in a row

    def guesses(self, count: int) -> Sequence[int]:
        """For the next pass, behind the last token that is sure; ``count``: tokens of the action.

        The last one of them is predicted and never an input.
        """
        return self._draft[len(self.tokens) : count - 1] if self._in_vain < MOST_IN_VAIN else ()

    def settle(self, predicted: Sequence[int], guesses: Sequence[int]) -> None:
        """Take what a pass over ``guesses`` has ``predicted``: one token at least becomes sure."""
        before = len(self.tokens)
        self.tokens = accept(self.tokens, predicted, guesses)
        self._in_vain = self._in_vain + 1 if len(self.tokens) == before + 1 else 0

    def settle_all(self, tokens: Sequence[int]) -> None:
        """Take the whole action, where one pass gives it."""
        self.tokens = list(tokens)

    def give_up_guessing(self) -> None:
        self._in_vain = MOST_IN_VAIN


def passes_needed(truth: Sequence[int], draft: Sequence[int]) -> int:
    """Passes, the prefill and plain steps included, until all of ``truth`` is settled, ``draft`` guessed."""
    run, passes, count = DraftedTokens(draft), 0, len(truth)
    while len(run.tokens) < count:
        run.settle(truth[len(run.tokens) :], run.guesses(count))
        passes += 1
    return passes
