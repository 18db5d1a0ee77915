# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.replay.config import ReplayConfig


def test_defaults_are_the_seeds_camera():
    config = ReplayConfig()
    assert (config.width, config.height, config.rate_hz, config.timing) == (128, 64, 60.0, "each_frame")
    assert config.period_ns == 16_666_667


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rate_hz": 0.0}, "rate_hz must be at least 0.1, got 0.0"),
        ({"rate_hz": float("nan")}, "rate_hz must be finite"),
        ({"rate_hz": float("inf")}, "rate_hz must be finite"),
        ({"rate_hz": "60"}, "rate_hz must be a float, got '60'"),
        ({"width": -1}, "width must be at least 0"),
        ({"width": 0}, "width and height must both be 0"),
        ({"height": 0}, "width and height must both be 0"),
        ({"timing": "realtime"}, "timing must be one of each_frame, media_time, got 'realtime'"),
        ({"loop": 1}, "loop must be a bool"),
    ],
)
def test_values_that_cannot_work_are_refused(values, says):
    with pytest.raises(ConfigError, match=says):
        ReplayConfig(**values)
