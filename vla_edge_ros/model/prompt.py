# SPDX-License-Identifier: Apache-2.0
"""An instruction as token ids: with the checkpoint's tokenizer and chat template, or a stand-in without one.

The stand-in, for random weights, takes each UTF-8 byte as a token id (modulo the ids below the action tokens,
where the vocabulary is tiny): it costs what a prompt costs and differs where instructions differ.

Where frames are remembered at least four tokens are pinned, padded in front: the first tokens of the cache
serve as attention sinks, and a stream without them collapses (StreamingLLM, arXiv 2309.17453).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import InstructionError
from vla_edge_ros.model.action_head import action_ids
from vla_edge_ros.model.chat_tokenizer import ChatTokenizer
from vla_edge_ros.model.decoder_config import resolve

MIN_TOKENS = 4


def prompt_tokens(instruction: str, config: VlaConfig) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """``(pinned, suffix)``: token ids before all frames, and behind each (``prompt.place``).

    Text behind the frame leaves its first token in front where that is the checkpoint's begin-of-sequence
    token, as OpenVLA has it. ``InstructionError`` where the instruction is longer than its room.
    """
    instruction = instruction.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no bytes
    if config.model.path:
        tokenizer = ChatTokenizer.of_folder(config.model.path)
        ids, padding, begin = tokenizer.encode(instruction), tokenizer.padding_id, tokenizer.begin_id
        _check_vocabulary(ids, config)
    else:
        ids, padding, begin = _stand_in(instruction, config), 0, None
    pinned, suffix = ids, list[int]()
    if config.prompt.place == "after_frame":
        pinned, suffix = (ids[:1], ids[1:]) if ids[:1] == [begin] else ([], ids)
    if config.layout.most_frames != 0:  # a stream needs attention sinks
        pinned = [padding] * (MIN_TOKENS - len(pinned)) + pinned
    room = config.prompt.max_pages * config.cache.page_slots
    if max(len(pinned), len(suffix)) > room:
        raise InstructionError(
            f"prompt.instruction takes {max(len(pinned), len(suffix))} tokens, prompt.max_pages x "
            f"cache.page_slots = {config.prompt.max_pages} x {config.cache.page_slots} = {room} slots are "
            f"there for it"
        )
    return np.array(pinned, np.int64), tuple(suffix)


def _stand_in(instruction: str, config: VlaConfig) -> list[int]:
    text_ids = action_ids(config.action, resolve(config.model).vocab_size).start
    return [byte % text_ids for byte in instruction.encode("utf-8")]


def _check_vocabulary(ids: list[int], config: VlaConfig) -> None:
    size = resolve(config.model).vocab_size
    if max(ids, default=0) >= size:
        raise InstructionError(
            f"model.path {config.model.path}: the tokenizer gives id {max(ids)}, "
            f"the model's vocab_size is {size}"
        )
