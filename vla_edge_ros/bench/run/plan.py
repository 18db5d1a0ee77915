# SPDX-License-Identifier: Apache-2.0
"""What is run, in which order, and with which parameters; decided and checked before any process starts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.kv_cache.eviction import POLICY_NAMES
from vla_edge_ros.ros.parameter_file import PARAMETERS, parameters_for
from vla_edge_ros.ros.parameter_tree import build, leaves
from vla_edge_ros.tabletop.config import FIRST_SEED

# Its own: an action must not reach the controller of a robot that happens to be on the network.
NAMESPACE = "vla_benchmark"
NODE = f"/{NAMESPACE}/vla_reasoner"
TABLETOP = "tabletop"
EPISODES_A_REPEAT = 10_000  # seeds between two repeats, more than any of them plays
START_S = 8.0  # importing, loading and warming up, roughly, for the first estimate of the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of one policy. ``folder``: its name below the run folder."""

    policy: str
    repeat: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.policy}-{self.repeat + 1}"

    @property
    def folder(self) -> str:
        return f"trials/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``parameters``: of the reasoner, by dotted name, without what differs from trial to trial.

    ``duration_s`` is measured in each trial, ``warmup_s`` before it is recorded and kept apart.
    """

    policies: tuple[str, ...]
    repeats: int = 1
    duration_s: float = 30.0
    warmup_s: float = 3.0
    source: str = "synthetic"
    rate_hz: float = 60.0
    seed: int = 0
    uses_ros: bool = True
    engine: str = "numpy"
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not self.policies:
            raise ConfigError(f"--policies must name at least one of {', '.join(POLICY_NAMES)}, got none")
        for name in self.policies:
            if name not in POLICY_NAMES:
                close = difflib.get_close_matches(name, POLICY_NAMES, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise ConfigError(f"--policies must be among {', '.join(POLICY_NAMES)}, got {name!r}{hint}")
        if len(set(self.policies)) < len(self.policies):
            raise ConfigError(f"--policies must name each policy once, got {' '.join(self.policies)}")
        _check_number("--repeats", self.repeats, 1, 1000)
        _check_number("--duration", self.duration_s, 1.0, 86_400.0)
        _check_number("--warmup", self.warmup_s, 0.0, 3600.0)
        _check_number("--rate-hz", self.rate_hz, 0.1, 1000.0)
        _check_number("--seed", self.seed, 0, 2**31)
        if self.is_tabletop and not self.uses_ros:
            raise ConfigError(
                "--source tabletop must run with ROS: the simulated robot is a node; got --no-ros"
            )
        if self.is_tabletop and self.rate_hz not in (30, 60):
            raise ConfigError(f"--rate-hz must be 30 or 60 for the simulated table, got {self.rate_hz:g}")
        for trial in self.trials():
            self.config(trial)

    @property
    def is_tabletop(self) -> bool:
        return self.source == TABLETOP

    @property
    def trial_s(self) -> float:
        """From the first picture to the end of a trial."""
        return self.warmup_s + self.duration_s

    def trials(self) -> list[Trial]:
        """Policies take turns in each repeat, so that a machine that grows warm does so for all of them."""
        return [
            Trial(policy=policy, repeat=repeat, seed=self.seed + repeat)
            for repeat in range(self.repeats)
            for policy in self.policies
        ]

    def values(self, trial: Trial, recording: str = "") -> dict[str, Any]:
        """Every parameter of the reasoner that is not a default."""
        return {
            **self.parameters,
            "engine.name": self.engine,
            "cache.eviction": trial.policy,
            "model.seed": trial.seed,
            "recording.path": recording,
        }

    def config(self, trial: Trial) -> VlaConfig:
        """Raises ``ConfigError`` for what cannot work."""
        return build(VlaConfig, self.values(trial))

    def first_episode(self, trial: Trial) -> int:
        """Seed of the simulated table's first episode: the same one for each policy."""
        return FIRST_SEED + trial.seed * EPISODES_A_REPEAT

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "policies": list(self.policies), "parameters": dict(self.parameters)}


def reasoner_parameters(file: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """What ``file`` gives the reasoner, and ``name:=value`` over it. Raises ``ConfigError``."""
    known = {leaf.name for leaf in leaves(VlaConfig)}
    values = parameters_for(file, NODE)
    for name in values:
        if "." in name and name not in known:
            raise ConfigError(f"{file}: {name} must be a parameter of the reasoner{_hint(name, known)}")
    values = {name: value for name, value in values.items() if name in known}
    for rule in overrides:
        name, separator, text = rule.partition(":=")
        if not separator:
            raise ConfigError(f"-p must be name:=value, got {rule!r}")
        if name not in known:
            raise ConfigError(f"-p must name a parameter of the reasoner, got {name!r}{_hint(name, known)}")
        try:
            values[name] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"-p {name} must have a value as YAML writes it, got {text!r}") from None
    return values


def write_parameters(path: Path, values: Mapping[str, Any]) -> None:
    """As a ROS parameter file, for a node of any name."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    document = {"/**": {PARAMETERS: plain}}
    path.write_text(yaml.safe_dump(document, sort_keys=True), encoding="utf-8")


def _hint(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _check_number(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # a NaN is refused as well
        raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value:g}")
