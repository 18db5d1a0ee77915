# SPDX-License-Identifier: Apache-2.0
"""What the user types, and the plan that follows from it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vla_edge_ros.bench.run.plan import TABLETOP, Plan, reasoner_parameters
from vla_edge_ros.errors import ConfigError, VlaEdgeError
from vla_edge_ros.replay.open_source import open_source
from vla_edge_ros.ros.share import TABLETOP_MODEL, share_file, trained_model

# fifo and sliding_window forget the same frames: what differs between them is the noise of this machine.
POLICIES = ("fifo", "sliding_window", "novelty")
TABLETOP_HZ = 30.0  # the rate of control; 60 Hz asks more of a CPU than two cores give

Check = Callable[[], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Notes:
    """``plan``, and lines about choices that the user did not make."""

    plan: Plan
    lines: tuple[str, ...]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="run_benchmarks",
        description="Runs eviction policies back to back on the same footage and writes a report.",
        epilog="Two finished runs side by side: run_benchmarks --compare RUN_A RUN_B",
        allow_abbrev=False,
    )
    made.add_argument("--policies", nargs="+", default=list(POLICIES), help="default: %(default)s")
    made.add_argument("--duration", type=float, default=30.0, help="measured seconds a trial; default: 30")
    made.add_argument("--warmup", type=float, default=3.0, help="seconds before them, kept apart; default: 3")
    made.add_argument("--repeats", type=int, default=1, help="trials a policy, each with the next seed")
    made.add_argument("--seed", type=int, default=0, help="of the first repeat: random weights, episodes")
    made.add_argument(
        "--source",
        default="synthetic",
        help=f"'synthetic', '{TABLETOP}' (the simulated table), or a video, image folder or rosbag2",
    )
    made.add_argument("--rate-hz", type=float, help="pictures a second; default: 60, 30 for the table")
    made.add_argument("--period-ms", type=float, help="control period and deadline")
    made.add_argument("--engine", choices=("auto", "numpy", "cuda"), default="auto")
    made.add_argument("--weights", choices=("bf16", "int8", "int4"), help="how weights are kept")
    made.add_argument("--kv", choices=("bf16", "int8"), help="how cuda keeps keys and values")
    made.add_argument("--config", type=Path, help="parameter file of the reasoner")
    made.add_argument(
        "-p",
        "--parameter",
        action="append",
        default=[],
        metavar="NAME:=VALUE",
        help="a parameter of the reasoner",
    )
    made.add_argument("--no-ros", action="store_true", help="camera and runtime in one process, without ROS")
    made.add_argument("--out", type=Path, default=Path("runs"), help="where the run folder goes")
    made.add_argument("--compare", nargs=2, type=Path, metavar=("RUN_A", "RUN_B"), help="of two run folders")
    made.add_argument("--report", type=Path, metavar="RUN", help="write the report of a run folder again")
    return made


def plan_of(options: argparse.Namespace, check: Check) -> Notes:
    """``check`` tells which engine works here, and why not CUDA. Raises ``ConfigError``, ``SourceError``."""
    is_tabletop = options.source == TABLETOP
    engine, lines = _engine_asked_for(options), []
    if engine == "auto":
        engine, reason = ("numpy", "") if is_tabletop else check()
        if reason:
            lines.append(f"no GPU can be used, so the NumPy engine runs: {reason}")
    file = _config_file(options.config, is_tabletop, engine)
    given = reasoner_parameters(file, options.parameter)
    if is_tabletop and options.config is None:
        given = {"model.path": str(trained_model(TABLETOP_MODEL)), **given}
    chosen = {
        "timing.period_ms": options.period_ms,
        "timing.deadline_ms": options.period_ms,
        "engine.weights": options.weights,
        "engine.kv": options.kv,
    }
    given |= {name: value for name, value in chosen.items() if value is not None}
    if not is_tabletop:
        open_source(options.source, rate_hz=60.0).close()
    plan = Plan(
        policies=tuple(options.policies),
        repeats=options.repeats,
        duration_s=options.duration,
        warmup_s=options.warmup,
        source=options.source if options.source in (TABLETOP, "synthetic") else _absolute(options.source),
        rate_hz=options.rate_hz if options.rate_hz is not None else TABLETOP_HZ if is_tabletop else 60.0,
        seed=options.seed,
        uses_ros=not options.no_ros,
        engine=engine,
        parameters=given,
    )
    return Notes(plan, tuple(lines))


def _engine_asked_for(options: argparse.Namespace) -> str:
    """By ``--engine``, else by the user's own parameters; ``auto`` where neither says."""
    if options.engine != "auto":
        return str(options.engine)
    typed = [rule for rule in options.parameter if rule.startswith("engine.name:=")]
    if options.config is not None and options.config.is_file():
        return str(reasoner_parameters(options.config, typed).get("engine.name", "auto"))
    return typed[-1].partition(":=")[2] if typed else "auto"


def _absolute(source: str) -> str:
    return str(Path(source).expanduser().absolute())


def _config_file(given: Path | None, is_tabletop: bool, engine: str) -> Path:
    if given is not None:
        if not given.is_file():
            raise ConfigError(f"--config must name a parameter file, got {given}")
        return given
    return share_file(f"config/{TABLETOP if is_tabletop else 'default' if engine == 'cuda' else 'tiny'}.yaml")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """A mistake ends the program with one line, as argparse does."""
    made = parser()
    options = made.parse_args(arguments)
    if options.compare and options.report:
        made.error("--compare and --report must not be given together")
    for name in options.compare or ([options.report] if options.report else []):
        if not name.is_dir():
            raise VlaEdgeError(f"expected a run folder of run_benchmarks, got {name}, which is none")
    return options
