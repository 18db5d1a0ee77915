# SPDX-License-Identifier: Apache-2.0
"""Eviction policies back to back on the same footage, through the real graph, and a report.

``run_benchmarks [--policies fifo novelty] [--duration 30] [--source clip.mp4] [--repeats 3]``, or
``ros2 run vla_edge_ros run_benchmarks``; two runs side by side: ``run_benchmarks --compare RUN_A RUN_B``.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from vla_edge_ros.bench.run.command_line import parse, plan_of
from vla_edge_ros.bench.run.compare import NAME as COMPARISON
from vla_edge_ros.bench.run.compare import compare
from vla_edge_ros.bench.run.progress import Progress
from vla_edge_ros.bench.run.report import write_page, write_report
from vla_edge_ros.bench.run.run_file import RunFile, new_run_folder
from vla_edge_ros.bench.run.runner import run_trials
from vla_edge_ros.bench.run.trial_data import read_run
from vla_edge_ros.console import console_program
from vla_edge_ros.errors import ConfigError, VlaEdgeError
from vla_edge_ros.ros.launch_choices import run_check

INTERRUPTED = 130


def measure(options: argparse.Namespace, typed: Sequence[str]) -> int:
    """Run the plan, write the report, say where it is. Raises ``VlaEdgeError``."""
    notes = plan_of(options, run_check)
    plan = notes.plan
    if plan.uses_ros:
        _require_ros()
    progress = Progress(plan, sys.stdout)
    for note in notes.lines:
        progress.say(note)
    folder = new_run_folder(options.out)
    progress.say(
        f"{len(plan.trials())} trials of {plan.warmup_s:g} + {plan.duration_s:g} s in {folder}; "
        "Ctrl-C ends early and keeps what was measured"
    )
    run_file = RunFile(folder, plan, shlex.join(["run_benchmarks", *typed]))
    with _sigterm_interrupts():
        try:
            is_whole = run_trials(plan, folder, run_file, progress)
        finally:
            run_file.end()
    tell(write_report(read_run(folder)))
    if not is_whole:
        return INTERRUPTED
    return 0 if run_file.document["complete"] else 1


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: a supervisor's stop keeps what was measured too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def tell(files: Sequence[Path]) -> None:
    for name, path in zip(("report", "as text", "numbers"), files, strict=True):
        print(f"{name:8s} {path}")


def side_by_side(folder_a: Path, folder_b: Path, out: Path) -> None:
    """Print what differs and write the page below ``out``. Raises ``SourceError``."""
    page, document = compare(folder_a, folder_b)
    folder = out / f"compare_{folder_a.resolve().name}_{folder_b.resolve().name}"
    for line in filter(None, [page.notice, *page.sections[0].answers]):
        print(line)
    try:
        tell(write_page(page, document, folder, COMPARISON))
    except OSError as error:
        raise ConfigError(f"--out must be a folder that can be written to: {error}") from error


def _require_ros() -> None:
    try:
        import rclpy  # noqa: F401
    except ImportError as error:
        raise VlaEdgeError(
            f"expected ROS (rclpy), got {error}; source a distribution, or run with --no-ros"
        ) from error


@console_program
def main(arguments: Sequence[str] | None = None) -> int:
    """0; 1 for what the user can mend, or a trial that failed; 130 after Ctrl-C."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options = parse(typed)
        if options.compare:
            side_by_side(options.compare[0], options.compare[1], options.out)
        elif options.report:
            tell(write_report(read_run(options.report)))
        else:
            return measure(options, typed)
    except VlaEdgeError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
