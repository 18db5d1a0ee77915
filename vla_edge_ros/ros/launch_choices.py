# SPDX-License-Identifier: Apache-2.0
"""What the launch files decide, without `launch`: their arguments, and what is started for given ones.

Every problem is a ``ConfigError`` in one line, raised before a process is started.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from vla_edge_ros.errors import ConfigError, VlaEdgeError
from vla_edge_ros.replay.config import ReplayConfig
from vla_edge_ros.ros.parameter_file import parameters_for
from vla_edge_ros.ros.parameter_tree import Leaf, build, coerce, leaves
from vla_edge_ros.ros.parent_watch import LAUNCH_PID
from vla_edge_ros.ros.share import PACKAGE, TABLETOP_MODEL, share_file, trained_model
from vla_edge_ros.tabletop.config import TabletopConfig

REASONER = "vla_reasoner"
LARGE_PRESET, TINY_PRESET = "qwen2.5-coder-1.5b", "tiny"
TRANSPORT_VARIABLE = "FASTDDS_BUILTIN_TRANSPORTS"
TRANSPORTS = ("DEFAULT", "DEFAULTv6", "SHM", "UDPv4", "UDPv6", "LARGE_DATA", "LARGE_DATAv6")
TRUE_OR_FALSE = ("true", "false")
CHECK_S = 60.0
# Launch's own, which `ros2 launch` or an including file hands on among the arguments.
OF_LAUNCH = ("launch-prefix", "launch-prefix-filter", "emulate_tty", "sigterm_timeout", "sigkill_timeout")

Check = Callable[[], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Argument:
    """One launch argument."""

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


@dataclass(slots=True)
class Plan:
    """What to start. ``notes``: lines for the terminal, each about a choice that the user did not make."""

    notes: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    config_files: list[str] = field(default_factory=list)  # of the reasoner; a later one wins
    parameters: dict[str, str] = field(default_factory=dict)  # of the reasoner, over its files
    camera: list[str] = field(default_factory=list)  # behind --ros-args


def _text(value: object) -> str:
    """As YAML reads it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_leaf(leaf: Leaf) -> Argument:
    choices = TRUE_OR_FALSE if leaf.kind == "bool" else () if leaf.kind.endswith("[]") else leaf.choices
    return Argument(leaf.name, _text(leaf.default), leaf.description, choices)


COMMON = (
    Argument(
        "config",
        "",
        "parameter file of the reasoner, or a name in the package's config folder; "
        "empty: default.yaml where a GPU works, else tiny.yaml",
    ),
    Argument("namespace", "vla", "namespace of the nodes"),
    Argument(
        "transport",
        "",
        f"Fast DDS transports ({', '.join(TRANSPORTS)}); LARGE_DATA for large images between processes; "
        f"an exported {TRANSPORT_VARIABLE} wins",
    ),
)
REASONING = (
    *COMMON,
    Argument("image", "image", "image topic; a relative one is in the namespace"),
    Argument("use_sim_time", "false", "take time from /clock, as when a bag is played", TRUE_OR_FALSE),
    Argument("autostart", "true", "activate at start; false: a lifecycle manager does it", TRUE_OR_FALSE),
)
REPLAY = (
    *COMMON,
    *map(_of_leaf, leaves(ReplayConfig)),
    Argument("rate", "", "the old name of rate_hz"),
    Argument("one_process", "false", "both nodes in one process, with a live line", TRUE_OR_FALSE),
)

OWN_POLICY = "parameter file of the reasoner; empty: tabletop.yaml with the trained weights of the package"
TABLETOP = (
    Argument("config", "", OWN_POLICY),
    *COMMON[1:],
    *map(_of_leaf, leaves(TabletopConfig)),
)


def refuse_unknown(file: str, given: Sequence[str], known: Sequence[Argument]) -> None:
    """``ConfigError`` for ``name:=value`` that the launch file does not have: `launch` would ignore it."""
    names = [argument.name for argument in known]
    for name in (text.partition(":=")[0] for text in given):
        if name not in names and name not in OF_LAUNCH:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{name} must be an argument of {file}, got an unknown name{hint}")


def is_on_command_line(file: str, command_line: Sequence[str]) -> bool:
    """Whether the user named this launch file, rather than one that includes it with arguments of its own."""
    return any(Path(word).name == file for word in command_line)


def refuse_death(executable: str, exit_code: int) -> None:
    """For a process that ended by itself: raised in a handler, it ends the launch with exit code 1."""
    if exit_code:
        raise VlaEdgeError(f"{executable} ended with exit code {exit_code}; its last lines say why")


def plan_reasoning(values: Mapping[str, str], environment: Mapping[str, str], check: Check) -> Plan:
    """``values``: of each argument in ``REASONING``, and ``ros_namespace`` of an including file."""
    plan = Plan()
    _choose_transport(plan, values, environment)
    plan.environment[LAUNCH_PID] = str(os.getpid())
    _choose_config(plan, values, check)
    return plan


def plan_replay(values: Mapping[str, str], environment: Mapping[str, str], check: Check) -> Plan:
    """``values``: of each argument in ``REPLAY``, and ``ros_namespace`` of an including file."""
    camera = _camera_values(values)
    plan = plan_reasoning(values, environment, check)
    if values["rate"]:
        plan.notes.append("the argument rate is called rate_hz, as the parameter; rate still serves")
    plan.camera = _rules(ReplayConfig, camera)
    return plan


def plan_tabletop(values: Mapping[str, str], environment: Mapping[str, str]) -> Plan:
    """``values``: of each argument in ``TABLETOP``."""
    robot = {leaf.name: _typed(leaf, values[leaf.name]) for leaf in leaves(TabletopConfig)}
    build(TabletopConfig, robot)
    plan = Plan(camera=_rules(TabletopConfig, robot))
    _choose_transport(plan, values, environment)
    plan.environment[LAUNCH_PID] = str(os.getpid())
    plan.config_files = [str(_config_path(values["config"] or "tabletop.yaml"))]
    if not values["config"]:
        plan.parameters = {"model.path": str(trained_model(TABLETOP_MODEL))}
    return plan


def _rules(config_class: type, values: Mapping[str, Any]) -> list[str]:
    """``-p name:=value`` for each parameter of ``config_class``."""
    rules = []
    for leaf in leaves(config_class):
        value = quoted(values[leaf.name]) if leaf.kind == "string" else _text(values[leaf.name])
        rules += ["-p", f"{leaf.name}:={value}"]
    return rules


def _camera_values(values: Mapping[str, str]) -> dict[str, Any]:
    """Typed; checked here, so that a mistake ends the launch and not one process of two."""
    typed = {leaf.name: _typed(leaf, values[leaf.name]) for leaf in leaves(ReplayConfig)}
    if values["rate"]:
        rate = next(leaf for leaf in leaves(ReplayConfig) if leaf.name == "rate_hz")
        old = _typed(replace(rate, name="rate"), values["rate"])
        if typed["rate_hz"] not in (rate.default, old):
            raise ConfigError(
                f"rate_hz and rate, its old name, must agree, got {values['rate_hz']} and {values['rate']}"
            )
        typed["rate_hz"] = old
    build(ReplayConfig, typed)
    return typed


def _typed(leaf: Leaf, text: str) -> Any:
    if isinstance(leaf.default, tuple):
        try:
            return coerce(leaf, yaml.safe_load(text))
        except yaml.YAMLError:
            raise ConfigError(f"{leaf.name} must be a list ({leaf.kind}), got {text!r}") from None
    kind = leaf.item_type
    if kind is str:
        return text
    if kind is bool:
        if text not in TRUE_OR_FALSE:
            raise ConfigError(f"{leaf.name} must be true or false, got {text!r}")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{leaf.name} must be a number ({leaf.kind}), got {text!r}") from None


def quoted(text: str) -> str:
    """For ``-p name:=``: rcl reads YAML, in which a file named 1e3 is a number and [a].mp4 a list."""
    return "'" + text.replace("'", "''") + "'"


def _choose_transport(plan: Plan, values: Mapping[str, str], environment: Mapping[str, str]) -> None:
    wanted, exported = values["transport"], environment.get(TRANSPORT_VARIABLE, "")
    if not wanted:
        return
    if wanted.partition("?")[0] not in TRANSPORTS:  # Fast DDS takes options behind a question mark
        raise ConfigError(f"transport must be one of {', '.join(TRANSPORTS)}, got {wanted!r}")
    if exported and exported != wanted:
        plan.notes.append(
            f"{TRANSPORT_VARIABLE}={exported} is exported and stays, transport:={wanted} is not used"
        )
    else:
        plan.environment[TRANSPORT_VARIABLE] = wanted


def _choose_config(plan: Plan, values: Mapping[str, str], check: Check) -> None:
    """Without a working GPU the large model would be built for minutes, to refuse every cycle then."""
    tiny = str(share_file("config/tiny.yaml"))
    if not values["config"]:
        engine, reason = check()
        plan.config_files = [str(share_file("config/default.yaml")) if engine == "cuda" else tiny]
        if engine != "cuda":
            plan.notes.append(
                f"no GPU can be used ({reason}): runs the tiny model, config/tiny.yaml; "
                "for another one give config:=FILE with model.path"
            )
        return
    path = _config_path(values["config"])
    prefix = [values.get("ros_namespace", ""), values["namespace"]]
    if values["namespace"].startswith("/"):
        prefix = [values["namespace"]]
    node = "/" + "/".join(part for part in "/".join([*prefix, REASONER]).split("/") if part)
    given = parameters_for(path, node)
    plan.config_files = [str(path)]
    is_own_choice = given.get("model.path") or given.get("engine.name", "auto") == "cuda"
    if is_own_choice or given.get("model.preset") == TINY_PRESET:
        return
    engine, reason = check()
    if engine == "cuda":
        return
    if given.get("model.preset") == LARGE_PRESET:
        plan.notes.append(
            f"no GPU can be used ({reason}), and {path} asks for random weights of {LARGE_PRESET}: "
            "they take minutes to build, and then each chunk is too slow; config:=tiny.yaml runs"
        )
    else:
        plan.config_files = [tiny, str(path)]
        plan.notes.append(
            f"no GPU can be used ({reason}), and {path} names no model: "
            "runs the tiny one, config/tiny.yaml below that file"
        )


def _config_path(text: str) -> Path:
    path = Path(text).expanduser()
    if path.is_file():
        return path.absolute()
    try:
        if path.parent == Path():
            return share_file(f"config/{text}")
    except VlaEdgeError:
        pass
    raise ConfigError(f"config must name a parameter file, got {text} (looked for {path.absolute()})")


def run_check() -> tuple[str, str]:
    """Engine and reason, from ``engine_check`` in the nodes' own interpreter."""
    try:
        ran = subprocess.run(_check_command(), capture_output=True, text=True, timeout=CHECK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "numpy", f"engine_check did not answer: {error}"
    lines = ran.stdout.splitlines()
    if ran.returncode or not lines:
        last = (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]
        return "numpy", f"engine_check failed: {last}"
    return lines[0], " ".join(lines[1:])


def _check_command() -> list[str]:
    """The installed program, whose first line names the interpreter that colcon built with."""
    try:
        from ament_index_python.packages import PackageNotFoundError, get_package_prefix
    except ImportError:  # without ROS
        return [sys.executable, "-m", f"{PACKAGE}.engines.check"]
    try:
        program = Path(get_package_prefix(PACKAGE), "lib", PACKAGE, "engine_check")
        if program.is_file():
            return [str(program)]
    except (PackageNotFoundError, OSError):
        pass
    return [sys.executable, "-m", f"{PACKAGE}.engines.check"]
