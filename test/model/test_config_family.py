# SPDX-License-Identifier: Apache-2.0
"""A family of folders whose keys contradict each other, their tensors or their types.

Each gives transformers' logits or is refused. ``test/golden/config_family.json`` keeps what transformers
makes of a thousand of them, so that this runs without it; where torch is installed, fresh ones are compared.
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import ModelSource
from vla_edge_ros.engines.numpy_decoder import NumpyDecoder, Place
from vla_edge_ros.engines.numpy_ops import linear
from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.tensor_shapes import EMBEDDING, head_name
from vla_edge_ros.model.weights import open_weights

GOLDEN = Path(__file__).parents[1] / "golden"
SPEC = importlib.util.spec_from_file_location("config_family", GOLDEN / "config_family.py")
family = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(family)

CASES = json.loads((GOLDEN / "config_family.json").read_text())
KEPT = [{key: case[key] for key in ("base", "config", "tensors", "sizes")} for case in CASES]
ROPE = {"rope_type": "default", "rope_theta": 7.0}
ABSENT = family.ABSENT


def our_logits(folder):
    """``[tokens, vocabulary]``, or None where the folder is refused."""
    try:
        weights = open_weights(ModelSource(path=str(folder)))
    except WeightsError as error:
        assert str(folder) in str(error) and "\n" not in str(error)
        return None
    decoder = NumpyDecoder(weights, pages=1, page_slots=len(family.TOKENS))
    decoder.see([], [])
    hidden = decoder.forward(weights.rows(EMBEDDING, family.TOKENS), [Place(0, 0, len(family.TOKENS))])
    return linear(hidden, weights.tensor(head_name(weights.config)))


def logits_of(tmp_path, base="qwen2", config=None, tensors=(), sizes=None):
    case = {"base": base, "config": config or {}, "tensors": tensors, "sizes": sizes or {}}
    family.write_folder(tmp_path, case)
    return our_logits(tmp_path)


@pytest.mark.parametrize("part", range(8))
def test_every_kept_case_has_transformers_logits_or_is_refused(tmp_path, part):
    loaded = 0
    for index in range(part, len(CASES), 8):
        folder = tmp_path / str(index)
        family.write_folder(folder, KEPT[index])
        got, wanted = our_logits(folder), CASES[index]["logits"]
        if got is not None:
            assert wanted is not None, f"transformers does not load {CASES[index]}"
            np.testing.assert_allclose(
                family.digest(got), wanted, rtol=1e-3, atol=1e-2, err_msg=str(KEPT[index])
            )
            loaded += 1
    assert loaded > 20  # a loader that refuses everything is no loader


@pytest.mark.parametrize(
    ("config", "tensors"),
    [
        ({}, ()),
        ({"rope_theta": 7.0}, ()),
        ({"rope_theta": ABSENT, "rope_parameters": ROPE}, ()),
        ({"rope_theta": ABSENT, "rope_scaling": ROPE}, ()),
        ({"rope_theta": 7, "rope_parameters": ROPE, "rope_scaling": ROPE}, ()),
        ({"rope_parameters": {"rope_type": "default"}, "rope_scaling": None}, ()),
        ({"rope_theta": ABSENT}, ()),
        ({"layer_types": ["full_attention"] * 2, "sliding_window": 4, "max_window_layers": 1}, ()),
        ({"tie_word_embeddings": False}, ("other head",)),
        ({}, ("same head",)),
        ({}, ("rotary frequencies",)),
        ({}, ("a value head",)),
        ({"num_key_value_heads": 4}, ()),
        ({"head_dim": 16}, ()),
    ],
)
@pytest.mark.parametrize("base", ["qwen2", "llama"])
def test_what_is_sound_is_loaded(tmp_path, base, config, tensors):
    sizes = {key: config[key] for key in ("num_key_value_heads", "head_dim") if key in config}
    assert logits_of(tmp_path, base, config, tensors, sizes) is not None


@pytest.mark.parametrize(
    ("config", "tensors", "words"),
    [
        ({"rope_parameters": ROPE}, (), ["100 by rope_theta", "7 by rope_parameters"]),
        ({"rope_parameters": {"rope_type": "default"}, "rope_scaling": {"type": "linear", "factor": 4.0}}, (),
         ["rope_scaling: type", "'linear'"]),
        ({"rope_theta": ABSENT, "rope_parameters": ROPE, "rope_scaling": {"type": "default"}}, (),
         ["7 by rope_parameters", "10000 by rope_scaling"]),
        ({"rope_parameters": {"full_attention": ROPE}}, (),
         ["one plain rotation for all layers", "full_attention"]),
        ({"tie_word_embeddings": "false"}, (), ["tie_word_embeddings must be true or false", "'false'"]),
        ({}, ("other head",), ["lm_head.weight must equal model.embed_tokens.weight", "tie_word_embeddings"]),
        ({"tie_word_embeddings": False}, (), ["lm_head.weight is missing", "tie_word_embeddings"]),
        ({"num_hidden_layers": 1}, (), ["model.layers.1.input_layernorm.weight", "would not be used"]),
        ({}, ("norm of q",), ["self_attn.q_norm.weight", "would not be used"]),
        ({"num_key_value_heads": ABSENT}, (), ["num_key_value_heads", "4 / 32"]),
        ({"layer_types": 3}, (), ["layer_types must be null or 2 times 'full_attention'", "got 3"]),
        ({"model_type": ["qwen2"]}, (), ["model_type must be one of qwen2, llama", "got ['qwen2']"]),
        ({"rope_theta": 10**400}, (), ["rope_theta must be a number"]),
        ({"num_hidden_layers": 10**9}, (), ["num_hidden_layers must be a positive integer of at most 1024"]),
        ({"auto_map": {"AutoModelForCausalLM": "modeling_x.Model"}}, (), ["auto_map", "own code"]),
    ],
)  # fmt: skip
def test_what_contradicts_is_refused_with_both_sides(tmp_path, config, tensors, words):
    family.write_folder(tmp_path, {"base": "qwen2", "config": config, "tensors": tensors, "sizes": {}})
    with pytest.raises(WeightsError) as caught:
        open_weights(ModelSource(path=str(tmp_path)))
    for word in words:
        assert word in str(caught.value)


def cases():
    config = st.sets(st.sampled_from(sorted(family.VALUES)), min_size=1, max_size=4).flatmap(
        lambda keys: st.fixed_dictionaries({key: st.sampled_from(family.VALUES[key]) for key in keys})
    )
    tensors = st.lists(st.sampled_from(family.TENSORS), max_size=2, unique=True)
    return st.builds(
        lambda base, config, tensors, sizes, fits: {
            "base": base,
            "config": {**(sizes if fits else {}), **config},
            "tensors": tensors,
            "sizes": sizes,
        },
        st.sampled_from(sorted(family.BASES)),
        config,
        tensors,
        st.sampled_from(family.SIZES),
        st.booleans(),
    )


@given(case=cases())
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
def test_fresh_cases_have_transformers_logits_or_are_refused(tmp_path_factory, case):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("family")
    family.write_folder(folder, case)
    got = our_logits(folder)
    if got is not None:
        wanted = family.transformers_logits(folder)
        assert wanted is not None, "transformers does not load it"
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(config=st.dictionaries(st.sampled_from(sorted(family.VALUES)), ANY_JSON, min_size=1, max_size=3))
@settings(max_examples=150)
def test_any_value_of_any_key_is_loaded_or_refused_in_one_line(tmp_path_factory, config):
    logits_of(tmp_path_factory.mktemp("any"), config=config)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"a": ' + b"9" * 10_000 + b"}",
        b"\xef\xbb\xbf{}",
        b"null",
        b'{"a": NaN}',
    ],
)
def test_text_that_is_no_config_is_refused_by_name(tmp_path, text):
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(WeightsError, match=r"config\.json"):
        open_weights(ModelSource(path=str(tmp_path)))
