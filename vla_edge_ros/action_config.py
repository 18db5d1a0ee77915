# SPDX-License-Identifier: Apache-2.0
"""What an action is: its dimensions, the range of each, what stops it, and the tokens that stand for it."""

from __future__ import annotations

from dataclasses import dataclass

from vla_edge_ros.config_fields import check_fields, param
from vla_edge_ros.errors import ConfigError

ACTION_NAMES = ("terminate", "dx", "dy", "dz", "droll", "dpitch", "dyaw", "gripper")

# What the number of a dimension is: a change in one training step, a change in one second, or where to be.
DELTA, RATE, POSITION = "delta", "rate", "position"
ACTION_KINDS = (DELTA, RATE, POSITION)
UNITS = ("m", "rad", "1")
BY_KIND, ZERO, HOLD = "by_kind", "zero", "hold"
EDGES, CENTRES = "edges", "centres"
_NORMALISED = (-1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionConfig:
    """The action vector, RT-2 style: one token of 256 bins a dimension; see docs/reference/action.md."""

    names: tuple[str, ...] = param(ACTION_NAMES, "dimensions in token order, the joint_names of the message")
    low: tuple[float, ...] = param(
        (-1.0,) * 8, "lower end of each dimension's range (q01), in its unit: of the lowest bin, by bin_rule"
    )
    high: tuple[float, ...] = param(
        (1.0,) * 8, "upper end of each dimension's range (q99), in its unit: of the highest bin, by bin_rule"
    )
    kinds: tuple[str, ...] = param(
        (RATE,) * 7 + (POSITION,),
        "what a number is: a change a training step, a change a second, or a position",
        choices=ACTION_KINDS,
    )
    units: tuple[str, ...] = param(
        ("1",),
        "unit of each dimension, or one for all; a delta is in it, a rate in it a second",
        choices=UNITS,
    )
    stops: tuple[str, ...] = param(
        (BY_KIND,),
        "what stops each dimension, or one for all; by_kind: zero for deltas and rates, hold for positions",
        choices=(BY_KIND, ZERO, HOLD),
    )
    training_hz: float = param(
        0.0,
        "steps a second of the data that the policy was trained on; needed for deltas; 0: not known",
        low=0.0,
    )
    gripper: str = param("", "dimension of the gripper; empty: the one named gripper, if there is one")
    gripper_one: str = param("open", "what a 1 of the gripper means", choices=("open", "closed"))
    terminate: str = param("", "dimension that ends a task; empty: the one named terminate, if there is one")
    statistics_file: str = param(
        "", "JSON file whose q01, q99 and mask replace low and high (OpenVLA, LeRobot); empty: none"
    )
    statistics: str = param("", "data set in statistics_file, such as bridge_orig; empty: its only one")
    bin_rule: str = param(
        EDGES,
        "values of the bins: evenly from low to high with both ends, or the centres between so many edges "
        "(OpenVLA: 255 for 256 tokens)",
        choices=(EDGES, CENTRES),
    )
    dead_band_bins: float = param(
        0.0,
        "deltas and rates of at most so many bin widths become 0; 0.5 is the nearest bin; 0: off",
        low=0.0,
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
    frame_id: str = param(
        "base_link", "frame in which the policy was trained to move, the frame_id of the message"
    )
    validity_ms: float = param(100.0, "time_from_start of the action: how long it may be followed", low=1.0)

    def __post_init__(self) -> None:
        check_fields("action", self)
        if not self.names or len(set(self.names)) != len(self.names):
            raise ConfigError(f"action.names must be non-empty and unique, got {self.names}")
        for name in self.names:
            if not name.strip() or not name.isprintable():
                raise ConfigError(f"action.names must be words in one line, got {name!r}")
        self._check_lengths()
        self._check_roles()
        for name, kind, stop in zip(self.names, self.kinds, self.stop_rules, strict=True):
            if kind != POSITION and stop == HOLD:
                raise ConfigError(
                    f"action.stops must be zero for {name}: a {kind} that is held goes on moving, got hold"
                )
        if DELTA in self.kinds and not self.training_hz:
            raise ConfigError(
                "action.training_hz must be given where action.kinds has a delta: the change a training step "
                "is no velocity without it"
            )
        if self.statistics and not self.statistics_file:
            raise ConfigError(
                f"action.statistics needs a file in action.statistics_file, got {self.statistics!r} alone"
            )
        if not self.statistics_file:
            self._check_ranges()

    def _check_lengths(self) -> None:
        count = len(self.names)
        for name in ("kinds",) if self.statistics_file else ("low", "high", "kinds"):
            values = getattr(self, name)
            if len(values) != count:
                raise ConfigError(f"action.{name} must have {count} values, one a name, got {len(values)}")
        for name in ("units", "stops"):
            values = getattr(self, name)
            if len(values) not in (1, count):
                raise ConfigError(f"action.{name} must have {count} values or one for all, got {len(values)}")
        if self.statistics_file:
            for name, end in zip(("low", "high"), _NORMALISED, strict=True):
                values = getattr(self, name)
                if set(values) - {end}:
                    raise ConfigError(
                        f"action.{name} must be left out beside action.statistics_file, got {values}"
                    )

    def _check_roles(self) -> None:
        for role in ("gripper", "terminate"):
            if getattr(self, role) and getattr(self, role) not in self.names:
                raise ConfigError(f"action.{role} must be one of action.names, got {getattr(self, role)!r}")
        if self.gripper_index is not None and self.gripper_index == self.terminate_index:
            raise ConfigError(f"action.gripper must not be action.terminate, got {self.gripper!r} for both")

    def _check_ranges(self) -> None:
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            # Equal ones are a dimension that never moved in the data.
            if low > high:
                raise ConfigError(f"action.low must not be above action.high for {name}, got {low} > {high}")
        for name, kind, stop, low, high in zip(
            self.names, self.kinds, self.stop_rules, self.low, self.high, strict=True
        ):
            if low <= 0.0 <= high or stop == HOLD:
                continue
            if kind == POSITION:
                raise ConfigError(
                    f"action.stops must be hold for {name}, whose range has no 0, got {low} to {high}"
                )
            raise ConfigError(
                f"action.kinds: {name} must be a position, or its range must hold 0: zero is what stops "
                f"a {kind}, got {low} to {high}"
            )

    @property
    def stop_rules(self) -> tuple[str, ...]:
        """``zero`` or ``hold``, one a name."""
        given = self.stops if len(self.stops) > 1 else self.stops * len(self.names)
        by_kind = (HOLD if kind == POSITION else ZERO for kind in self.kinds)
        return tuple(rule if stop == BY_KIND else stop for stop, rule in zip(given, by_kind, strict=True))

    @property
    def is_held(self) -> tuple[bool, ...]:
        """Of each dimension: whether holding its last value stops it, and not zero."""
        return tuple(rule == HOLD for rule in self.stop_rules)

    @property
    def unit_of_each(self) -> tuple[str, ...]:
        """``m``, ``rad`` or ``1``, one a name."""
        return self.units if len(self.units) > 1 else self.units * len(self.names)

    @property
    def gripper_index(self) -> int | None:
        """Place of the gripper in ``names``; None without one."""
        return self._place(self.gripper or "gripper")

    @property
    def terminate_index(self) -> int | None:
        """Place of the dimension that ends a task in ``names``; None without one."""
        return self._place(self.terminate or "terminate")

    def _place(self, name: str) -> int | None:
        return self.names.index(name) if name in self.names else None

    @property
    def tokens(self) -> int:
        """Action tokens a chunk."""
        return len(self.names)
