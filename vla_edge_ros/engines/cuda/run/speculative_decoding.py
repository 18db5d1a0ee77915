# SPDX-License-Identifier: Apache-2.0
"""Greedy speculative decoding: which tokens one pass over draft tokens accepts.

A verification pass takes the last accepted token and the draft tokens behind it, and predicts behind each of
them what plain decoding would choose if they were right (Leviathan et al. 2023, Chen et al. 2023, in their
greedy form). Up to the first rejected draft token they are, and the prediction in its place is right too.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_REJECTED_PASSES = 2  # passes in a row that accept no draft token, the prefill included


def accept(tokens: Sequence[int], predicted: Sequence[int], drafted: Sequence[int]) -> list[int]:
    """``tokens`` and those that a pass over its last one and the draft tokens ``drafted`` has added.

    ``predicted``: at least ``1 + len(drafted)`` token ids, the choice behind each row of that pass.
    """
    accepted = [*tokens, int(predicted[0])]
    for row, token in enumerate(drafted, start=1):
        if token != accepted[-1]:
            break
        accepted.append(int(predicted[row]))
    return accepted


class SpeculativeTokens:
    """An action's tokens as its passes accept them, and which draft tokens are worth another pass.

    Where none are, plain decode steps do the rest. A verification pass takes as long as 1.4 plain steps
    (docs/benchmarks/chunk-h200.json): it pays where one draft token is accepted. In recorded runs a draft is
    accepted whole or hardly at all, so two passes in a row that accept none end the verification, and a
    rejected draft costs little more than none (docs/explanation/engine-log.md).
    """

    def __init__(self, draft: Sequence[int]):
        """``draft``: the tokens that are expected, from the action's first on; may be empty."""
        self.accepted: list[int] = []
        self._draft = draft
        self._rejected_passes = 0  # in a row

    def draft_tokens(self, count: int) -> Sequence[int]:
        """For the next pass, behind the last accepted token; ``count``: tokens of the action.

        The last one of them is predicted and never an input.
        """
        if self._rejected_passes >= MOST_REJECTED_PASSES:
            return ()
        return self._draft[len(self.accepted) : count - 1]

    def accept(self, predicted: Sequence[int], drafted: Sequence[int]) -> None:
        """Take what a pass over the draft tokens ``drafted`` has ``predicted``: one token at least."""
        before = len(self.accepted)
        self.accepted = accept(self.accepted, predicted, drafted)
        self._rejected_passes = self._rejected_passes + 1 if len(self.accepted) == before + 1 else 0

    def accept_all(self, tokens: Sequence[int]) -> None:
        """Take the whole action, where one pass gives it."""
        self.accepted = list(tokens)

    def reject_draft(self) -> None:
        """No further verification pass for this action."""
        self._rejected_passes = MOST_REJECTED_PASSES


def passes_needed(truth: Sequence[int], draft: Sequence[int]) -> int:
    """Passes, the prefill and plain steps included, until all of ``truth`` is accepted, given ``draft``."""
    run, passes, count = SpeculativeTokens(draft), 0, len(truth)
    while len(run.accepted) < count:
        run.accept(truth[len(run.accepted) :], run.draft_tokens(count))
        passes += 1
    return passes
