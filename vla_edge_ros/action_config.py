# SPDX-License-Identifier: Apache-2.0
"""What an action is: its dimensions, the range of each, what stops it, and the tokens that stand for it."""

from __future__ import annotations

from dataclasses import dataclass

from vla_edge_ros.config_fields import check_fields, param
from vla_edge_ros.errors import ConfigError

ACTION_NAMES = ("terminate", "dx", "dy", "dz", "droll", "dpitch", "dyaw", "gripper")

# What a dimension commands, by what stops it: a rate (a velocity, or a step a period) stops at zero, a
# position where it is held.
RATE, POSITION = "rate", "position"
ACTION_KINDS = (RATE, POSITION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionConfig:
    """The action vector, RT-2 style: one token of 256 bins a dimension."""

    names: tuple[str, ...] = param(ACTION_NAMES, "dimensions in token order, the joint_names of the message")
    low: tuple[float, ...] = param((-1.0,) * 8, "value of the lowest bin centre, a dimension")
    high: tuple[float, ...] = param((1.0,) * 8, "value of the highest bin centre, a dimension")
    kinds: tuple[str, ...] = param(
        (RATE,) * 7 + (POSITION,),
        "what stops a dimension: a rate is 0 in zero motion, a position keeps its last value",
        choices=ACTION_KINDS,
    )
    bins: int = param(256, "action tokens, of consecutive ids that end at last_token_id (OpenVLA)", low=2)
    last_token_id: int = param(0, "id of the lowest bin's token; 0: the model's last, padding or not", low=0)
    head: str = param(
        "action", "logits over the action tokens only, or over all", choices=("action", "full_vocabulary")
    )
    decoding: str = param(
        "autoregressive",
        "tokens one after the other, or all in the frame's pass from query tokens (a model trained for it)",
        choices=("autoregressive", "parallel"),
    )
    frame_id: str = param("tool0", "frame_id of the action message")
    validity_ms: float = param(100.0, "time_from_start of the action: how long it may be followed", low=1.0)

    def __post_init__(self) -> None:
        check_fields("action", self)
        if not self.names or len(set(self.names)) != len(self.names):
            raise ConfigError(f"action.names must be non-empty and unique, got {self.names}")
        for name in self.names:
            if not name.strip() or not name.isprintable():
                raise ConfigError(f"action.names must be words in one line, got {name!r}")
        for name in ("low", "high", "kinds"):
            values = getattr(self, name)
            if len(values) != len(self.names):
                raise ConfigError(
                    f"action.{name} must have {len(self.names)} values, one a name, got {len(values)}"
                )
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if not low < high:
                raise ConfigError(f"action.low must be below action.high for {name}, got {low} >= {high}")
        for name, kind, low, high in zip(self.names, self.kinds, self.low, self.high, strict=True):
            if kind == RATE and not low <= 0.0 <= high:
                raise ConfigError(
                    f"action.kinds: {name} must be a position, or its range must hold 0: zero is what stops "
                    f"a rate, got {low} to {high}"
                )

    @property
    def is_position(self) -> tuple[bool, ...]:
        """Of each dimension: whether holding its last value stops it, and not zero."""
        return tuple(kind == POSITION for kind in self.kinds)

    @property
    def tokens(self) -> int:
        """Action tokens a chunk."""
        return len(self.names)
