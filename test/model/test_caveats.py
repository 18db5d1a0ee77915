# SPDX-License-Identifier: Apache-2.0
"""What is said at start-up of a model folder that loads and is not what it seems."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models

from vla_edge_ros.config import ActionConfig, ModelSource, VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.model.caveats import caveats

GOLDEN = Path(__file__).parents[1] / "golden" / "llama_untied_multi_head"  # 200 ids, with its own projection


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    write_tokenizer(tmp_path, 200)
    return tmp_path


def write_tokenizer(folder, ids):
    Tokenizer(models.WordLevel({f"w{i}": i for i in range(ids)}, unk_token="w0")).save(
        str(folder / "tokenizer.json")
    )


def change_tensors(folder, change):
    """With ones for values, since NumPy has no bfloat16."""
    path = folder / "model.safetensors"
    with safe_open(path, framework="numpy") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
    save_file(change({name: np.ones(shape, np.float32) for name, shape in shapes.items()}), path)


def told(folder, **action):
    return caveats(VlaConfig(model=ModelSource(path=str(folder)), action=ActionConfig(bins=64, **action)))


def test_a_whole_model_has_none(folder):
    assert told(folder) == ()


def test_random_weights_have_none():
    assert caveats(VlaConfig(model=ModelSource(preset="tiny"))) == ()


def test_a_text_model_cannot_see_and_the_missing_tensor_is_named(folder):
    change_tensors(folder, lambda tensors: {k: v for k, v in tensors.items() if not k.startswith("vla.")})
    (line,) = told(folder)
    assert line.startswith("THE MODEL CANNOT SEE") and "vla.patch_projection" in line and str(folder) in line


def test_a_model_and_a_configuration_of_two_ways_to_decode_are_told(folder):
    (line,) = told(folder, decoding="parallel")
    assert "no tensor vla.action_queries" in line and "random query tokens" in line
    hidden = json.loads((folder / "config.json").read_text())["hidden_size"]
    change_tensors(
        folder, lambda tensors: {**tensors, "vla.action_queries": np.ones((7, hidden), np.float32)}
    )
    assert told(folder, decoding="parallel") == ()
    (line,) = told(folder)
    assert "vla.action_queries is not used" in line


def test_a_motion_in_metres_that_no_token_can_stop_is_told_with_its_size(folder):
    motion = {
        "units": ("1", *"mmm", *("rad",) * 3, "1"),
        "kinds": ("rate", "delta", *("rate",) * 5, "position"),
    }
    (line,) = told(folder, **motion, training_hz=5.0)
    assert "dx (0.016 m a training step), dy (0.016 m a second)" in line and "and 2 more" in line
    assert "terminate" not in line and "action.dead_band_bins" in line
    assert told(folder, **motion, training_hz=5.0, dead_band_bins=0.5) == ()
    assert told(folder, **motion, training_hz=5.0, bin_rule="centres") == ()


@pytest.mark.parametrize("ids", [190, 210])
def test_tokenizer_and_model_of_two_sizes_are_told_until_somebody_says_which_id_is_last(folder, ids):
    write_tokenizer(folder, ids)
    (line,) = told(folder)
    for part in (f"last id is {ids - 1}", "the model's 199", "136 to 199", "action.last_token_id"):
        assert part in line
    assert told(folder, last_token_id=189) == ()


def test_what_lies_in_the_folder_and_is_not_used_is_named(folder):
    change_tensors(folder, lambda tensors: {**tensors, "v_head.weight": np.ones(3, np.float32)})
    save_file({"x": np.ones(3, np.float32)}, folder / "model-00001-of-00002.safetensors")
    tensors, files = told(folder)
    assert "do not use" not in files and "v_head.weight" in tensors and "model-00001-of-00002" in files


def test_action_ids_outside_of_the_vocabulary_are_refused(folder):
    with pytest.raises(ConfigError, match="action.last_token_id"):
        told(folder, last_token_id=200)
