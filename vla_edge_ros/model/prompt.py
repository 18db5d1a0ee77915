# SPDX-License-Identifier: Apache-2.0
"""An instruction as token ids: with the checkpoint's tokenizer and chat template, or a stand-in without one.

The stand-in, for random weights, takes each UTF-8 byte as a token id (modulo the ids below the action tokens,
where the vocabulary is tiny): it costs what a prompt costs and differs where instructions differ.

At least four tokens are always given, padded in front: the first tokens of the cache serve as attention
sinks, and a stream without them collapses (StreamingLLM, arXiv 2309.17453).
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


def token_ids(instruction: str, config: VlaConfig) -> NDArray[np.int64]:
    """``[p]``, 4 <= p <= pinned slots. ``InstructionError`` where the instruction is longer."""
    instruction = instruction.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no bytes
    if config.model.path:
        tokenizer = ChatTokenizer.of_folder(config.model.path)
        ids, padding = tokenizer.encode(instruction), tokenizer.padding_id
        _check_vocabulary(ids, config)
    else:
        ids, padding = _stand_in(instruction, config), 0
    ids = [padding] * (MIN_TOKENS - len(ids)) + ids
    room = config.prompt.max_pages * config.cache.page_slots
    if len(ids) > room:
        raise InstructionError(
            f"prompt.instruction takes {len(ids)} tokens, prompt.max_pages x cache.page_slots = "
            f"{config.prompt.max_pages} x {config.cache.page_slots} = {room} slots are pinned for it"
        )
    return np.array(ids, np.int64)


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
