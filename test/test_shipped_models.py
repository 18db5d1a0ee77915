# SPDX-License-Identifier: Apache-2.0
"""Shipped models are found by name from any folder, and never hide a folder of the user's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vla_edge_ros import shipped_models
from vla_edge_ros.config import ModelSource, VlaConfig
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.model.action_head import ActionHead
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.prompt import prompt_tokens
from vla_edge_ros.model.weights import open_weights
from vla_edge_ros.ros.parameter_file import parameters_for
from vla_edge_ros.ros.parameter_tree import build

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(folder.name for folder in shipped_models.MODELS.glob("*") if folder.is_dir())


@pytest.fixture
def one_model(tmp_path, monkeypatch):
    (tmp_path / "models" / "small").mkdir(parents=True)
    monkeypatch.setattr(shipped_models, "MODELS", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_is_the_shipped_folder(one_model):
    assert ModelSource(path="small").path == str(one_model / "models" / "small")


def test_a_folder_of_that_name_here_wins(one_model):
    (one_model / "small").mkdir()
    assert ModelSource(path="small").path == "small"


@pytest.mark.parametrize("path", ["", "other", "./small", "a/small", "..", ".", "a" * 5000, "a\0b"])
def test_anything_else_stays_as_it_is(one_model, path):
    assert ModelSource(path=path).path == path


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_model_is_small_and_answers_a_picture(name, monkeypatch, tmp_path):
    folder = shipped_models.MODELS / name
    assert sum(file.stat().st_size for file in folder.iterdir()) < 3e6
    assert (folder / "MODEL_CARD.md").is_file()
    monkeypatch.chdir(tmp_path)
    given = parameters_for(ROOT / "config" / "tabletop.yaml", "/vla/reasoner")
    assert given["model.path"] in NAMES
    config = build(VlaConfig, given)
    engine = NumpyEngine(config, open_weights(config.model))
    engine.load()
    policy = make_policy(config.cache)
    cache = KvCache.for_model(config, policy, resolve(config.model).hidden_size)
    pinned, suffix = prompt_tokens("point to the red button", config)
    engine.write_prompt(pinned, cache.set_prompt(len(pinned)))
    engine.embed_frame(np.full((64, 128, 3), 120, np.uint8))
    with cache.begin(1, 1) as chunk:
        engine.prefill(chunk.view, (), suffix)
        tokens = engine.decode(chunk.view, 2, lambda step_ms: False).tokens
    values = ActionHead(config.action, 512).decode(tokens)
    assert np.abs(values).max() <= 0.4
    engine.close()
