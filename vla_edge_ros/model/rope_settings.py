# SPDX-License-Identifier: Apache-2.0
"""The rotary base of a ``config.json``, and a refusal of every rotation but the plain one.

It may stand in ``rope_parameters`` (transformers 5), in ``rope_scaling`` and beside both as ``rope_theta``
(transformers 4). A file can hold several generations at once, and then each reader takes another:
transformers 5 drops ``rope_parameters`` where ``rope_scaling`` holds anything, transformers 4 knows only the
latter. So the base must be the same by every way to read the file.
"""

from __future__ import annotations

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.config_values import ConfigValues

DEFAULT_THETA = 10000.0
_OBJECTS = ("rope_parameters", "rope_scaling")
_KNOWN = {"rope_theta", "rope_type", "type", "partial_rotary_factor"}


def rope_theta(config: ConfigValues) -> float:
    """The base of all layers' rotation; ``WeightsError`` where it is scaled, partial, by layer or not one."""
    beside = config.number("rope_theta", DEFAULT_THETA, low=1.0)
    if config.raw("partial_rotary_factor") is not None:
        config.require("partial_rotary_factor", 1.0)
    found = {"rope_theta": beside} if "rope_theta" in config else {}
    for name in _OBJECTS:
        rope = config.section(name)
        if rope is not None:
            _refuse_other_rotations(rope)
            found[name] = rope.number("rope_theta", beside, low=1.0)
    if len(set(found.values())) > 1:
        told = ", ".join(f"{theta:g} by {key}" for key, theta in found.items())
        raise WeightsError(f"{config.where}: rope_theta must be the same wherever it stands, got {told}")
    return next(iter(found.values()), DEFAULT_THETA)


def _refuse_other_rotations(rope: ConfigValues) -> None:
    rope.require("rope_type", "default")
    rope.require("type", "default")
    rope.require("partial_rotary_factor", 1.0)
    if unknown := sorted(rope.keys() - _KNOWN):
        raise WeightsError(
            f"{rope.where} must describe one plain rotation for all layers "
            f"(keys {', '.join(sorted(_KNOWN))}), got {', '.join(unknown)} as well"
        )
