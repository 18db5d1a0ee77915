# SPDX-License-Identifier: Apache-2.0
"""Instructions that change between two cycles, and those that the engine fails on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vla_edge_ros.config import PromptConfig
from vla_edge_ros.errors import EngineError
from vla_edge_ros.runtime.pinned_prompt import Prompt
from vla_edge_ros.types import Outcome


@pytest.mark.parametrize(("mode", "kept"), [("flush", 1), ("keep", 4)])
def test_changed_instruction_is_pinned_before_the_next_frame(rig, mode, kept):
    config = replace(rig.config, prompt=PromptConfig(max_pages=1, on_change=mode))
    rig = rig.build(config)
    for _ in range(3):
        rig.cycle()
    rig.loop.change_prompt(Prompt("x", np.arange(7)))
    assert rig.cycle().outcome is Outcome.ACTED
    assert rig.engine.prompts == [([0, 1, 2, 3, 4, 5, 6], (0,))]
    assert rig.cache.prompt_tokens == 7 and len(rig.cache.memory) == kept
    rig.cycle()
    assert len(rig.engine.prompts) == 1


def test_instruction_that_the_engine_fails_on_is_given_up_for_the_one_before(rig):
    rig.cycle()
    rig.loop.change_prompt(Prompt("x", np.arange(7)))
    assert rig.loop.instruction == "x"
    rig.engine.fail_at = "prompt"
    assert rig.cycle().outcome is Outcome.ENGINE_ERROR
    assert rig.cycle().outcome is Outcome.ENGINE_ERROR  # so does the one before, which is tried again
    rig.engine.fail_at = None
    assert rig.cycle().outcome is Outcome.ACTED
    assert rig.loop.instruction == "the first" and rig.cache.prompt_tokens == 5
    assert rig.engine.prompts == [([0, 1, 2, 3, 4], (0,))]


def test_instruction_that_breaks_the_engine_in_an_unforeseen_way_is_given_up_too(rig, monkeypatch):
    rig.cycle()
    with monkeypatch.context() as broken:
        broken.setattr(rig.engine, "write_prompt", lambda token_ids, pages: 1 / 0)
        rig.loop.change_prompt(Prompt("x", np.arange(7)))
        with pytest.raises(ZeroDivisionError):
            rig.cycle()
    assert rig.cycle().outcome is Outcome.ACTED
    assert rig.loop.instruction == "the first" and rig.engine.prompts == [([0, 1, 2, 3, 4], (0,))]


def test_a_newer_instruction_is_not_lost_when_the_one_before_it_fails(rig, monkeypatch):
    rig.cycle()

    def fail_and_receive(token_ids, pages):
        rig.loop.change_prompt(Prompt("newer", np.arange(9)))
        raise EngineError("told to fail")

    with monkeypatch.context() as broken:
        broken.setattr(rig.engine, "write_prompt", fail_and_receive)
        rig.loop.change_prompt(Prompt("x", np.arange(7)))
        assert rig.cycle().outcome is Outcome.ENGINE_ERROR
    assert rig.cycle().outcome is Outcome.ACTED
    assert rig.loop.instruction == "newer" and rig.cache.prompt_tokens == 9
