# SPDX-License-Identifier: Apache-2.0
"""The flat view of the configuration tree: nothing is lost, nothing is guessed."""

import array
import math
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.ros.parameter_tree import Leaf, build, coerce, leaves


def leaf(name: str) -> Leaf:
    return next(leaf for leaf in leaves(VlaConfig) if leaf.name == name)


def test_every_leaf_of_the_tree_has_a_unique_name_and_a_description():
    names = [leaf.name for leaf in leaves(VlaConfig)]
    assert len(names) == len(set(names)) > 30
    assert all(leaf.description for leaf in leaves(VlaConfig))
    assert {"timing.deadline_ms", "cache.capacity_slots", "action.names"} <= set(names)


def test_defaults_make_the_default_tree():
    assert build(VlaConfig, {leaf.name: leaf.default for leaf in leaves(VlaConfig)}) == VlaConfig()
    assert build(VlaConfig, {}) == VlaConfig()


def test_a_value_reaches_its_field():
    kinds = ["position"] * 8
    config = build(VlaConfig, {"timing.period_ms": 50, "action.kinds": kinds, "model.path": "x"})
    assert config.timing.period_ms == 50.0 and type(config.timing.period_ms) is float
    assert config.action.kinds == tuple(kinds)
    assert config.model.path == "x"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("timing.deadline_ms", "33", 33.0),
        ("timing.deadline_ms", "3.3e+1", 33.0),
        ("cache.capacity_slots", "4096", 4096),
        ("cache.capacity_slots", "4.0e+3", 4000),
        ("model.path", "'1e3'", "1e3"),
        ("model.path", "'true'", "true"),
        ("action.low", "[-1, -2, 0]", (-1.0, -2.0, 0.0)),
        ("action.kinds", "[rate]", ("rate",)),
        ("action.kinds", "['']", ()),
    ],
)
def test_what_yaml_makes_of_a_value_is_taken(name, text, expected):
    value = coerce(leaf(name), yaml.safe_load(text))
    assert value == expected and type(value) is type(expected)


def test_arrays_as_rclpy_gives_them_are_taken():
    assert coerce(leaf("action.low"), array.array("d", [1.5, 2.0])) == (1.5, 2.0)
    assert coerce(leaf("action.low"), array.array("q", [1, 2])) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("model.path", 1000.0, ["model.path must be of type string", "1000.0", "quotes"]),
        ("model.path", True, ["model.path must be of type string", "True", "quotes"]),
        ("timing.deadline_ms", "fast", ["timing.deadline_ms must be of type double", "'fast'"]),
        ("timing.deadline_ms", True, ["timing.deadline_ms must be of type double", "True"]),
        ("cache.capacity_slots", 1.5, ["cache.capacity_slots must be of type integer", "1.5"]),
        ("action.names", "dx", ["action.names must be a list", "'dx'"]),
        ("action.names", ["dx", 1], ["action.names must be of type string", "1"]),
        ("action.low", 1.0, ["action.low must be a list", "1.0"]),
        ("timing.deadline_ms", [33.0], ["timing.deadline_ms must be of type double", "[33.0]"]),
    ],
)
def test_a_value_of_another_type_is_refused_with_name_and_value(name, value, words):
    with pytest.raises(ConfigError) as refusal:
        coerce(leaf(name), value)
    assert all(word in str(refusal.value) for word in words)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_a_time_that_cannot_be_is_refused_by_the_tree(value):
    with pytest.raises(ConfigError, match=r"timing\.deadline_ms"):
        build(VlaConfig, {"timing.deadline_ms": value})


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@given(
    name=st.sampled_from([leaf.name for leaf in leaves(VlaConfig)]),
    value=scalars | st.lists(scalars, max_size=4),
)
def test_any_value_gives_a_tree_or_a_config_error(name, value):
    try:
        build(VlaConfig, {name: value})
    except ConfigError as refusal:
        assert re.match(r"[a-z]+\.[a-z_]+ ", str(refusal))  # starts with a dotted name
