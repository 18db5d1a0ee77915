# SPDX-License-Identifier: Apache-2.0
"""The words that the trained policy knows, and their ids: a word is a token, split at white space."""

from __future__ import annotations

from vla_edge_ros.tabletop.scene import COLOURS

UNKNOWN = "<unk>"
WORDS = (UNKNOWN, "point", "to", "the", "button", "touch", "last", "lit", *COLOURS)
WORD_IDS = {word: number for number, word in enumerate(WORDS)}


def token_ids(instruction: str) -> list[int]:
    """Ids of ``instruction``'s words; an unknown word has that of ``UNKNOWN``, as in the saved tokenizer."""
    return [WORD_IDS.get(word, WORD_IDS[UNKNOWN]) for word in instruction.split()]
