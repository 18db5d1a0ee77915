# SPDX-License-Identifier: Apache-2.0
"""Whether the last action is worth offering as a draft of the next one.

Where an action repeats a draft saves most passes of a chunk; where all its tokens are rejected it costs 1.15
(bf16) to 1.27 (int4) times a chunk without one (docs/benchmarks/chunk-h200.json). Both kinds of chunk are
timed, and the cheaper one of late is taken. An engine that does not use drafts takes as long either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from vla_edge_ros.types import ChunkTimes

WEIGHT = 0.3  # of a new chunk in each average: three rejected drafts after a calm time end the drafting
MOST_OF_PLAIN = 1.25  # of a chunk without a draft: the most that one with a rejected draft takes
TRY_AGAIN = 16  # chunks without a draft before one is tried: a sixteenth of the loss, half a second at 30 Hz


class DraftChoice:
    """Moving averages of what chunks with and without a draft cost, in ms."""

    def __init__(self) -> None:
        self._drafted_ms: float | None = None
        self._plain_ms: float | None = None
        self._plain_chunks = 0  # since the last draft

    def offer(self, last_tokens: Sequence[int], room_ms: float) -> tuple[int, ...]:
        """``last_tokens``, or nothing: where there are none, or where drafts have been the dearer way.

        ``room_ms``: what is left of the cycle's budget. A try must not cost the cycle an action that it would
        have without one.
        """
        if self._plain_ms is None or self._drafted_ms is None or self._drafted_ms <= self._plain_ms:
            return tuple(last_tokens)
        harmless = self._plain_ms > room_ms or MOST_OF_PLAIN * self._plain_ms <= room_ms
        return tuple(last_tokens) if harmless and self._plain_chunks >= TRY_AGAIN else ()

    def learn(self, times: ChunkTimes) -> None:
        """Take a chunk's times. An aborted one would have taken longer: a draft then counts as dear."""
        if times.drafted:
            tried = self._plain_chunks >= TRY_AGAIN
            self._plain_chunks = 0
            chunk_ms = times.total_ms
            if not times.completed:
                chunk_ms = max(chunk_ms, 2.0 * (self._plain_ms or 0.0))
            # What was learned before a try is out of date.
            self._drafted_ms = chunk_ms if tried else _mixed(self._drafted_ms, chunk_ms)
            return
        self._plain_chunks += 1
        if times.completed:
            self._plain_ms = _mixed(self._plain_ms, times.total_ms)


def _mixed(average: float | None, sample: float) -> float:
    return sample if average is None else (1.0 - WEIGHT) * average + WEIGHT * sample
