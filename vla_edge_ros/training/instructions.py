# SPDX-License-Identifier: Apache-2.0
"""The words that a trained policy knows, and their ids: a word is a token, split at white space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vla_edge_ros.tabletop.own_task import load_own_task
from vla_edge_ros.tabletop.scene import COLOURS
from vla_edge_ros.tabletop.task_names import is_file

UNKNOWN = "<unk>"
WORDS = (UNKNOWN, "point", "to", "the", "button", "touch", "last", "lit", *COLOURS)
WORD_IDS = {word: number for number, word in enumerate(WORDS)}


def word_ids(tasks: Iterable[str]) -> dict[str, int]:
    """Ids of the words of all tasks: those of the package's own first, then what files of ``tasks`` add."""
    words = dict(WORD_IDS)
    for task in tasks:
        if is_file(task):
            for word in load_own_task(task).instruction.split():
                words.setdefault(word, len(words))
    return words


def token_ids(instruction: str, words: Mapping[str, int] = WORD_IDS) -> list[int]:
    """Ids of ``instruction``'s words; an unknown word has that of ``UNKNOWN``, as in the saved tokenizer."""
    return [words.get(word, words[UNKNOWN]) for word in instruction.split()]
