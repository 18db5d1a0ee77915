# SPDX-License-Identifier: Apache-2.0
"""The process of a trial that holds the reasoning node; ``run_benchmarks`` starts and measures it.

The node records its cycles and topics as on a robot. It ends by itself,
``--trial-s`` after the first picture.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from vla_edge_ros.bench.run.kept_frames import KeptFrames, WatchedEngine
from vla_edge_ros.bench.run.plan import NAMESPACE
from vla_edge_ros.bench.run.trial_options import PARAMETER_FILE, TrialOptions, parse
from vla_edge_ros.bench.run.trial_state import DONE, RUNNING, STARTING, TrialClock, write_state
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes

LOOK_S = 0.2


class TrialTimer(Node):
    """Ends the trial in time, and tells how far it is."""

    def __init__(self, reasoner: ReasoningNode, trial: TrialClock, folder: Path, stop: StopRequest):
        super().__init__("trial_timer", namespace=NAMESPACE)
        self._reasoner, self._trial, self._folder, self._stop = reasoner, trial, folder, stop
        self._is_over = False
        self.error = ""

    def start(self) -> None:
        """Raises ``VlaEdgeError`` where the reasoner did not come up."""
        if not self._reasoner.is_active:
            raise VlaEdgeError("the reasoner did not start; the reason is in the log above")
        self.create_timer(LOOK_S, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def stop(self) -> None:
        if self._is_over:
            self._tell(DONE)

    def _look(self) -> None:
        try:
            self._is_over = self._trial.is_over()
        except VlaEdgeError as error:
            self.error = str(error)
            self._stop.request(1)
            return
        self._tell(RUNNING)
        if self._is_over:
            self._stop.request()

    def _tell(self, phase: str) -> None:
        metrics, frames = self._reasoner.metrics, self._reasoner.frames
        write_state(
            self._folder,
            phase,
            self._trial.elapsed_s,
            frames_received=frames.written,
            frames_overwritten=frames.overwritten,
            frames_refused=frames.refused,
            unanswered_cycles=metrics.unanswered_cycles,
            dropped_results=metrics.dropped_results,
            late_messages=metrics.late_messages,
        )


def run(options: TrialOptions) -> int:
    """Exit code."""
    folder = options.folder
    kept = KeptFrames(folder, options.moments_s)
    clock = TrialClock(options.trial_s, kept.begin)
    timers: list[TrialTimer] = []
    write_state(folder, STARTING)

    def create(stop: StopRequest) -> Sequence[Runnable]:
        reasoner = ReasoningNode(
            namespace=NAMESPACE,
            make_engine=lambda config: WatchedEngine(load_engine(config), kept),
            observers=[clock],
        )
        timers.append(TrialTimer(reasoner, clock, folder, stop))
        # The timer is stopped last: what it tells then is of the whole run.
        return [reasoner, *timers]

    code = run_nodes(create, ["--ros-args", "--params-file", str(folder / PARAMETER_FILE)])
    kept.close()
    for timer in timers:
        if timer.error:
            print(f"error: {timer.error}", file=sys.stderr)
    return code


@console_program
def main(arguments: Sequence[str] | None = None) -> int:
    return run(parse(sys.argv[1:] if arguments is None else arguments, __doc__))


if __name__ == "__main__":
    sys.exit(main())
