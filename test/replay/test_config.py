# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.replay.config import ReplayConfig


def test_defaults_are_the_seeds_camera():
    config = ReplayConfig()
    assert (*config.size, config.rate_hz, config.timing) == (128, 64, 60.0, "each_frame")
    assert config.period_ns == 16_666_667


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rate_hz": 0.0}, "rate_hz must be at least 0.1, got 0.0"),
        ({"rate_hz": float("nan")}, "rate_hz must be finite"),
        ({"rate_hz": float("inf")}, "rate_hz must be finite"),
        ({"rate_hz": "60"}, "rate_hz must be a float, got '60'"),
        ({"width": -2}, "width must be at least -1"),
        ({"wait_for_subscriber": "yes"}, "wait_for_subscriber must be one of auto, always, never, got 'yes'"),
        ({"timing": "realtime"}, "timing must be one of each_frame, media_time, got 'realtime'"),
        ({"loop": 1}, "loop must be a bool"),
    ],
)
def test_values_that_cannot_work_are_refused(values, says):
    with pytest.raises(ConfigError, match=f"^{says}"):  # the name as the user wrote it
        ReplayConfig(**values)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, (128, 64)),
        ({"width": 0, "height": 0}, (0, 0)),
        ({"width": 640, "height": 480}, (640, 480)),
        ({"width": 640}, (640, 0)),
        ({"height": 480}, (0, 480)),
        ({"width": 0}, (0, 0)),
    ],
)
def test_a_size_of_which_one_side_is_given_leaves_the_other_to_the_source(given, size):
    assert ReplayConfig(**given).size == size


def test_a_clip_that_plays_once_waits_for_who_shall_see_it():
    assert not ReplayConfig().waits_for_subscriber
    assert ReplayConfig(loop=False).waits_for_subscriber
    assert not ReplayConfig(loop=False, wait_for_subscriber="never").waits_for_subscriber
    assert ReplayConfig(wait_for_subscriber="always").waits_for_subscriber
