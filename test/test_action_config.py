# SPDX-License-Identifier: Apache-2.0
"""What a dimension is: kind, unit, stop, role; and every contradiction refused by name."""

from __future__ import annotations

import pytest

from vla_edge_ros.action_config import ACTION_NAMES, ActionConfig
from vla_edge_ros.errors import ConfigError

ARM = {"names": ("dx", "yaw", "claw"), "low": (-0.1, -0.2, 0.0), "high": (0.1, 0.2, 1.0)}
KINDS = {"kinds": ("delta", "rate", "position"), "training_hz": 5.0}


def test_what_stops_a_dimension_follows_from_its_kind():
    assert ActionConfig(**ARM, **KINDS).stop_rules == ("zero", "zero", "hold")
    assert ActionConfig().stop_rules == ("zero",) * 7 + ("hold",)


def test_a_position_can_be_told_to_stop_at_zero():
    config = ActionConfig(**ARM, **KINDS, stops=("by_kind", "by_kind", "zero"))
    assert config.is_held == (False, False, False)


def test_one_unit_stands_for_all_dimensions_and_a_list_for_each():
    assert ActionConfig().unit_of_each == ("1",) * 8
    assert ActionConfig(**ARM, **KINDS, units=("m", "rad", "1")).unit_of_each == ("m", "rad", "1")


def test_gripper_and_terminate_are_found_by_their_usual_names_or_as_named():
    assert (ActionConfig().gripper_index, ActionConfig().terminate_index) == (7, 0)
    other = ActionConfig(**ARM, **KINDS, gripper="claw")
    assert (other.gripper_index, other.terminate_index) == (2, None)
    assert ActionConfig(**ARM, **KINDS).gripper_index is None


def test_a_parameter_file_of_before_means_what_it_meant():
    """names, low, high and kinds were all there was."""
    config = ActionConfig(
        names=("left", "right"), low=(-1.0, -1.0), high=(1.0, 1.0), kinds=("rate", "position")
    )
    assert config.stop_rules == ("zero", "hold")
    assert (config.bin_rule, config.dead_band_bins, config.statistics_file) == ("edges", 0.0, "")


def test_with_a_statistics_file_the_ranges_are_left_out_whatever_the_number_of_names():
    named = {"names": ACTION_NAMES[1:], "kinds": ("rate",) * 6 + ("position",), "statistics_file": "s.json"}
    assert ActionConfig(**named).tokens == 7
    assert ActionConfig(**named, low=(-1.0,) * 7, high=(1.0,) * 7).tokens == 7
    with pytest.raises(ConfigError, match=r"action.high must be left out beside action.statistics_file, got"):
        ActionConfig(**named, high=(0.5,) * 7)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kinds": ("delta", "rate", "position")}, "action.training_hz must be given where .* a delta"),
        ({**KINDS, "training_hz": -1.0}, "action.training_hz must be at least 0.0, got -1.0"),
        ({**KINDS, "units": ("m", "rad")}, "action.units must have 3 values or one for all, got 2"),
        ({**KINDS, "units": ()}, "action.units must have 3 values or one for all, got 0"),
        ({**KINDS, "units": ("mm",)}, "action.units must be one of m, rad, 1, got 'mm'"),
        ({**KINDS, "stops": ("zero", "zero")}, "action.stops must have 3 values or one for all, got 2"),
        (
            {**KINDS, "stops": ("hold",)},
            "action.stops must be zero for dx: a delta that is held goes on moving",
        ),
        (
            {**KINDS, "stops": ("zero",), "low": (-0.1, -0.2, 0.5)},
            "action.stops must be hold for claw, whose range has no 0, got 0.5 to 1.0",
        ),
        ({**KINDS, "low": (0.05, -0.2, 0.0)}, "zero is what stops a delta, got 0.05 to 0.1"),
        ({**KINDS, "gripper": "grip"}, "action.gripper must be one of action.names, got 'grip'"),
        ({**KINDS, "terminate": "end"}, "action.terminate must be one of action.names, got 'end'"),
        ({**KINDS, "gripper": "claw", "terminate": "claw"}, "action.gripper must not be action.terminate"),
        ({**KINDS, "gripper_one": "shut"}, "action.gripper_one must be one of open, closed, got 'shut'"),
        ({**KINDS, "statistics": "bridge_orig"}, "action.statistics needs a file in action.statistics_file"),
        ({**KINDS, "bin_rule": "middle"}, "action.bin_rule must be one of edges, centres, got 'middle'"),
        ({**KINDS, "dead_band_bins": -0.5}, "action.dead_band_bins must be at least 0.0, got -0.5"),
    ],
)
def test_a_contradiction_is_refused_by_name(fields, text):
    with pytest.raises(ConfigError, match=text):
        ActionConfig(**{**ARM, **fields})
