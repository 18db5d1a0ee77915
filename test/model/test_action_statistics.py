# SPDX-License-Identifier: Apache-2.0
"""Ranges from the statistics of a training, against OpenVLA's own formula; what is ambiguous is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import ActionConfig, FallbackConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.model.action_head import ActionHead
from vla_edge_ros.model.action_statistics import with_statistics
from vla_edge_ros.runtime.fallback import FallbackLadder
from vla_edge_ros.types import Action

NAMES = ("dx", "dy", "dz", "droll", "dpitch", "dyaw", "gripper")
VOCABULARY = 32_000
# The published numbers of bridge_orig, rounded.
BRIDGE = {
    "q01": [-0.02872725, -0.0417035, -0.02609386, -0.08092105, -0.092887, -0.20718276, 0.0],
    "q99": [0.02830968, 0.04085525, 0.04016159, 0.0819205, 0.07792851, 0.20382575, 1.0],
    "mask": [True] * 6 + [False],
}


def config(path, **fields) -> ActionConfig:
    given_fields = {
        "names": NAMES,
        "kinds": ("delta",) * 6 + ("position",),
        "units": ("m",) * 3 + ("rad",) * 3 + ("1",),
        "training_hz": 5.0,
        "bin_rule": "centres",
        "statistics_file": str(path),
    }
    return ActionConfig(**{**given_fields, **fields})


@pytest.fixture
def stored(tmp_path):
    def write(document, name="dataset_statistics.json"):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return path

    return write


def openvla_action(tokens, statistics):
    """openvla prismatic/vla/action_tokenizer.py and modeling_prismatic.py, word for word in NumPy."""
    bins = np.linspace(-1, 1, 256)
    centres = (bins[:-1] + bins[1:]) / 2.0
    index = np.clip(VOCABULARY - np.asarray(tokens) - 1, a_min=0, a_max=centres.shape[0] - 1)
    normalised = centres[index]
    high, low = np.array(statistics["q99"]), np.array(statistics["q01"])
    mask = statistics.get("mask", np.ones_like(low, dtype=bool))
    return np.where(mask, 0.5 * (normalised + 1) * (high - low) + low, normalised)


def openvla_tokens(normalised):
    return VOCABULARY - np.digitize(np.clip(normalised, -1.0, 1.0), np.linspace(-1, 1, 256))


def test_every_token_of_every_dimension_is_openvla_s_value(stored):
    head = ActionHead(config(stored({"bridge_orig": {"action": BRIDGE}})), VOCABULARY)
    for token in range(VOCABULARY - 256, VOCABULARY):
        np.testing.assert_allclose(
            head.decode([token] * 7), openvla_action([token] * 7, BRIDGE), rtol=0, atol=1e-15
        )


@given(st.lists(st.floats(-1.2, 1.2), min_size=7, max_size=7))
@settings(max_examples=200)
def test_a_value_becomes_openvla_s_token(values):
    head = ActionHead(config("", names=NAMES, low=(-1.0,) * 7, high=(1.0,) * 7), VOCABULARY)
    ours, theirs = np.array(head.encode(values)), openvla_tokens(np.array(values))
    # Where a value lies on an edge to rounding, either neighbour is right.
    place = (np.clip(values, -1, 1) + 1) / 2 * 255
    on_edge = np.abs(place - np.rint(place)) < 1e-9
    assert ((ours == theirs) | (on_edge & (np.abs(ours - theirs) <= 1))).all()


def test_the_gripper_is_not_normalised(stored):
    head = ActionHead(config(stored({"bridge_orig": {"action": BRIDGE}})), VOCABULARY)
    assert head.decode([VOCABULARY - 128] * 7)[6] == 0.0
    assert head.decode([VOCABULARY - 256] * 7)[6] == pytest.approx(254 / 255)


@pytest.mark.parametrize(
    ("document", "chosen"),
    [
        ({"bridge_orig": {"action": BRIDGE, "proprio": BRIDGE, "num_transitions": 3}}, ""),
        ({"bridge_orig": {"action": BRIDGE}, "taco": {"action": {}}}, "bridge_orig"),
        ({"norm_stats": {"bridge_orig": {"action": BRIDGE}}, "model_type": "openvla"}, ""),
        ({"action": BRIDGE, "observation.state": {"q01": [0.0], "q99": [1.0]}, "index": {"min": [0]}}, ""),
        ({"action.arm": BRIDGE, "observation.state": {"min": [0.0]}}, "action.arm"),
    ],
    ids=["openvla file", "one of two", "config.json", "lerobot", "a feature of lerobot"],
)
def test_the_layouts_of_openvla_and_lerobot_are_read(stored, document, chosen):
    found = with_statistics(config(stored(document), statistics=chosen))
    assert found.low == (*BRIDGE["q01"][:6], -1.0)
    assert found.high == (*BRIDGE["q99"][:6], 1.0)
    assert found.statistics_file == "" and with_statistics(found) is found


def test_without_a_mask_all_dimensions_are_normalised(stored):
    found = with_statistics(config(stored({"d": {"action": {**BRIDGE, "mask": None}}})))
    assert (found.low[6], found.high[6]) == (0.0, 1.0)


def test_a_dimension_that_never_moved_has_one_value(stored):
    still = {**BRIDGE, "q01": [*BRIDGE["q01"][:3], 0.0, *BRIDGE["q01"][4:]],
             "q99": [*BRIDGE["q99"][:3], 0.0, *BRIDGE["q99"][4:]]}  # fmt: skip
    head = ActionHead(config(stored({"d": {"action": still}})), VOCABULARY)
    for token in (VOCABULARY - 256, VOCABULARY - 77, VOCABULARY - 1):
        assert head.decode([token] * 7)[3] == 0.0
    assert np.isfinite(head.decode(head.encode([0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.5]))).all()


def changed(**fields):
    return {"d": {"action": {**BRIDGE, **fields}}}


TWO = {"bridge_orig": {"action": BRIDGE}, "taco_play": {"action": BRIDGE}}


@pytest.mark.parametrize(
    ("document", "chosen", "text"),
    [
        (TWO, "", r"action.statistics must name one of the data sets in .*: bridge_orig, taco_play$"),
        (TWO, "bridge", r"got 'bridge', expected one of bridge_orig, taco_play$"),
        ({"observation.state": BRIDGE}, "", r"action.statistics must name one of .*: observation.state$"),
        ({"model_type": "llama"}, "", r"expected statistics by data set .* got the keys model_type$"),
        ({"norm_stats": None}, "", r"got the keys norm_stats$"),
        ({}, "", r"got the keys none$"),
        ({"d": {"action": {"mean": [0.0], "std": [1.0]}}}, "", r"expected q01 and q99, got .* mean, std$"),
        (changed(q01=[0.0] * 8), "", r"d: q01 has 8 dimensions, action.names 7: dx, dy, "),
        (changed(q99=[]), "", r"q99 has 0 dimensions"),
        (changed(mask=[True] * 6), "", r"mask has 6 dimensions"),
        (changed(mask=[1] * 7), "", r"mask must hold true or false, got 1$"),
        (changed(q01={"x": 1}), "", r"q01 must be a list, got \{'x': 1\}$"),
        (changed(q01=[True] * 7), "", r"q01 must hold finite numbers, got True$"),
        (changed(q01=["-1"] * 7), "", r"q01 must hold finite numbers, got '-1'$"),
        (changed(q01=[None] * 7), "", r"q01 must hold finite numbers, got None$"),
        (changed(q01=[float("nan")] * 7), "", r"q01 must hold finite numbers, got nan$"),
        (changed(q99=[float("inf")] * 7), "", r"q99 must hold finite numbers, got inf$"),
        (changed(q99=[10**400] * 7), "", r"q99 must hold finite numbers, got 1000"),
        (changed(q01=[9.0] * 7), "", r"d: action.low must not be above action.high for dx, got 9.0 > 0.028"),
        (changed(q01=[0.01] * 7), "", r"dx must be a position, or its range must hold 0"),
        ("[1, 2]", "", r"expected a JSON object, got list"),
        ("{", "", r"expected JSON, got"),
        ("[" * 100_000, "", r"expected JSON, got"),
        ("", "", r"it is empty: was the download cut\?"),
        ("version https://git-lfs.github.com/spec/v1\n", "", r"Git LFS pointer"),
    ],
)  # fmt: skip
def test_what_is_ambiguous_or_broken_is_refused_in_one_line(stored, document, chosen, text):
    path = stored(document)
    with pytest.raises(ConfigError, match=text) as refusal:
        ActionHead(config(path, statistics=chosen), VOCABULARY)
    told = str(refusal.value)
    assert told.startswith("action.statistics") and "\n" not in told and str(path) in told


@pytest.mark.parametrize("name", ["missing.json", ""])
def test_a_file_that_is_missing_or_a_folder_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="action.statistics_file .*(no such file|a folder)"):
        ActionHead(config(tmp_path / name), VOCABULARY)


ends = st.tuples(st.floats(-1e6, 0.0), st.floats(0.0, 1e6))


@given(ranges=st.lists(ends, min_size=6, max_size=6), tokens=st.lists(st.integers(31_744, 31_999), min_size=7,
       max_size=7))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_a_stop_is_zero_in_physical_units_for_every_statistics(tmp_path_factory, ranges, tokens):
    path = tmp_path_factory.mktemp("statistics") / "s.json"
    low, high = zip(*ranges, strict=True)
    mask = BRIDGE["mask"]
    path.write_text(json.dumps({"d": {"action": {"q01": [*low, 0.0], "q99": [*high, 1.0], "mask": mask}}}))
    own = config(path)
    rungs = FallbackLadder(FallbackConfig(mode="zero"), own)
    values = ActionHead(own, VOCABULARY).decode(tokens)
    rungs.acted(Action(values, 0))
    stop = rungs.answer(1)[1].values
    assert stop[:6].tolist() == [0.0] * 6 and stop[6] == values[6]
