# SPDX-License-Identifier: Apache-2.0
"""What a state of the scene must be."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.tabletop.scene import SceneState, no_balls

GOOD = {
    "joints": np.zeros(3),
    "objects": np.zeros((2, 2)),
    "colours": ("red", "grey"),
    "lit": 1,
    "balls": no_balls(),
}


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("joints", np.zeros(4), r"expected joints \[3\], got \(4,\)"),
        ("objects", np.zeros((3, 2)), r"expected objects \[2, 2\], one a colour, got \(3, 2\)"),
        ("balls", np.zeros((1, 3)), r"expected balls \[m, 4\], got \(1, 3\)"),
        ("colours", ("red", "pink"), r"got \['pink'\]"),
        ("lit", 2, "expected lit in 0..1 or None, got 2"),
        ("lit", -1, "got -1"),
        ("gain", float("nan"), "gain"),
        ("gain", -0.1, "gain"),
    ],
)
def test_a_wrong_state_is_refused_with_what_was_expected(field, value, text):
    SceneState(**GOOD)
    with pytest.raises(ValueError, match=text):
        SceneState(**{**GOOD, field: value})
