# SPDX-License-Identifier: Apache-2.0
"""The simulated robot: a camera over a table and an arm that follows actions, in real time.

Threads: the player steps the physics and publishes, on the steady clock's grid; the executor takes actions,
and the answers of services.
"""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

from vla_edge_ros.console import console_program
from vla_edge_ros.ros.camera_publisher import CameraPublisher
from vla_edge_ros.ros.command_line import CommandLine
from vla_edge_ros.ros.diagnostics_publisher import DiagnosticsPublisher
from vla_edge_ros.ros.fixed_parameters import FixedParameters
from vla_edge_ros.ros.instruction_delivery import InstructionDelivery
from vla_edge_ros.ros.listeners import Listeners
from vla_edge_ros.ros.parameters import declare_config
from vla_edge_ros.ros.qos import subscribe
from vla_edge_ros.ros.robot_input import RobotInput
from vla_edge_ros.ros.robot_states import RobotStates
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes
from vla_edge_ros.runtime.cycle_clock import CycleClock
from vla_edge_ros.tabletop.config import TabletopConfig
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.film import Film
from vla_edge_ros.tabletop.results import EpisodeResult, append_result, result_of
from vla_edge_ros.tabletop.tasks import draw
from vla_edge_ros.units import NS_PER_S

SPIN_NS = 100_000
LOOK_S = 0.02  # how soon it is seen that the reasoner is ready
PATIENCE_S = 2.0  # before the log says what is waited for
WAIT_LOG_S = 10.0
# A machine that slept does not play the time of its sleep at once: the table stood still as well.
LONGEST_CATCH_UP_S = 0.5


class TabletopNode(Node):
    """``start`` begins the episodes, ``stop`` ends them; at the end the player calls ``on_finished``.

    ``results`` are those of the episodes that ended; ``error`` says why the player ended before its time.
    ``published`` counts images, ``skipped`` the ticks that the machine was too late for. Raises
    ``ConfigError`` for parameters that cannot work, ``VlaEdgeError`` without MuJoCo.
    """

    def __init__(self, *, on_finished: Callable[[], None] | None = None, **node_args: Any):
        super().__init__("tabletop", **node_args)
        self.published = self.skipped = 0
        self.results: list[EpisodeResult] = []
        self.finished = threading.Event()
        self.error: str | None = None
        self._on_finished = on_finished
        self._stopping = threading.Event()
        try:
            config = self.config = declare_config(self, TabletopConfig)
            self._first = self._made(0)  # what physics needs is missing now or never
        except BaseException:
            self.destroy_node()
            raise
        self.add_on_set_parameters_callback(FixedParameters(self, TabletopConfig))
        self._camera = CameraPublisher(self, config.frame_id)
        self._states = RobotStates(self)
        self._input = RobotInput(config.action_timeout_ms / 1000)
        self._instruction = InstructionDelivery(self, config.reasoner)
        self._listeners = Listeners(self, self._camera.publisher)
        # Depth 1: an older action than the newest is of no use.
        actions = subscribe(
            self, JointTrajectory, "action", self._receive, QoSProfile(depth=1), self._warn_of_mismatch
        )
        self._action_topic = actions.topic_name
        self._is_moving = False
        self._film = Film() if config.film else None
        self._diagnostics = DiagnosticsPublisher(self, self._gather)
        self._cycle_clock = CycleClock(config.period_ns, SPIN_NS)
        self._player = threading.Thread(target=self._play_until_stopped, name="tabletop_player", daemon=True)

    def start(self) -> None:
        config = self.config
        self.get_logger().info(
            f"camera and physics at {config.camera_hz} Hz; "
            f"{config.episodes or 'endless'} episodes of {', '.join(config.tasks)}"
        )
        self._player.start()

    def stop(self) -> None:
        """End the player and write the film; safe to call twice, and without ``start``."""
        self._stopping.set()
        self._cycle_clock.stop()
        if self._player.is_alive():
            self._player.join()
        if self._film is not None:
            film, self._film = self._film, None
            try:
                film.write(Path(self.config.film))
            except OSError as error:
                self.get_logger().error(f"film must be a file that can be written, got {error}")

    def _play_until_stopped(self) -> None:
        try:
            for number in self._numbers():
                episode = self._first if number == 0 else self._made(number)
                if not self._hand_over(episode.plan.instruction):
                    break
                self._play(episode, number)
        except Exception as error:  # of any kind: told to the node's owner, it must not die with the thread
            self.error = str(error)
            self.get_logger().error(f"the simulation ended: {error}")
        self.finished.set()
        if self._on_finished is not None:
            self._on_finished()

    def _numbers(self) -> Iterator[int]:
        for number in range(self.config.episodes) if self.config.episodes else count():
            if self._stopping.is_set():
                return
            yield number

    def _made(self, number: int) -> Episode:
        plan = draw(*self.config.episode(number))
        return Episode(plan, physics=self.config.physics, rate_hz=self.config.camera_hz)

    def _hand_over(self, instruction: str) -> bool:
        """Until the reasoner works by ``instruction`` and has forgotten what was before; false: stopped.

        The same text again would change nothing, so another one comes before. No image is sent meanwhile: the
        first one that the reasoner sees then is the episode's first.
        """
        self._wait(self._missing)
        for text in (self.config.idle_instruction, instruction):
            self._instruction.give(text)
            self._wait(lambda text=text: self._not_taken(text))  # type: ignore[misc]
        return not self._stopping.is_set()

    def _wait(self, missing: Callable[[], str]) -> None:
        """Until nothing is missing, or the node is stopped; now and then the log says what is."""
        began_s = time.monotonic()
        while not self._stopping.is_set() and (what := missing()):
            if time.monotonic() - began_s > PATIENCE_S:
                self.get_logger().info(f"waits for {what}", throttle_duration_sec=WAIT_LOG_S)
            self._stopping.wait(LOOK_S)

    def _missing(self) -> str:
        return self._listeners.missing() if self.config.reasoner else ""

    def _not_taken(self, text: str) -> str:
        return (
            "" if self._instruction.is_taken() else f"{self.config.reasoner} to take the instruction {text}"
        )

    def _play(self, episode: Episode, number: int) -> None:
        accepted, refused, skipped = self._input.accepted, self._input.refused.total(), self.skipped
        self._input.begin(self._cycle_clock.start() / NS_PER_S)
        self._is_moving = True
        self._show(episode, number)
        while not episode.ended and (tick := self._cycle_clock.wait_next()) is not None:
            self._advance(episode, 1 + tick.skipped, tick.scheduled_ns / NS_PER_S)
            self.skipped += tick.skipped
            self._show(episode, number)
        self._is_moving = False
        if not episode.ended:
            return  # stopped
        result = result_of(
            episode,
            number,
            self._input.accepted - accepted,
            self._input.refused.total() - refused,
            self.skipped - skipped,
        )
        self._report(episode, result)

    def _advance(self, episode: Episode, ticks: int, until_s: float) -> None:
        """Time goes on through the ticks that were missed as well; each of them may end the episode."""
        velocity = self._input.mean_velocity(until_s)
        for _ in range(min(ticks, 1 + round(LONGEST_CATCH_UP_S * self.config.camera_hz))):
            if not episode.ended:
                episode.step(velocity)

    def _show(self, episode: Episode, number: int) -> None:
        picture = episode.picture()
        height, width, _ = picture.shape
        self._camera.publish(array("B", picture.tobytes()), height, width)
        self.published += 1
        self._states.publish(episode, number)
        if self._film is not None:
            self._film.see(episode)

    def _report(self, episode: Episode, result: EpisodeResult) -> None:
        self.results.append(result)
        self.get_logger().info(result.text)
        if self._film is not None:
            outcome = "the right one" if result.succeeded else "a wrong one"
            self._film.see(episode, f"touched {'none' if result.touched is None else outcome}")
        if self.config.results:
            append_result(Path(self.config.results), result)

    def _receive(self, message: JointTrajectory) -> None:
        now_ns = self.get_clock().now().nanoseconds
        if reason := self._input.receive(message, now_ns, time.monotonic()):
            self.get_logger().error(f"action refused: {reason}", throttle_duration_sec=1.0)

    def _warn_of_mismatch(self, policy: str) -> None:
        self.get_logger().warning(f"a publisher of actions does not match in {policy}: it must be reliable")

    def _gather(self) -> Sequence[DiagnosticStatus]:
        publishers = self.count_publishers(self._action_topic)
        name = self.get_fully_qualified_name()
        return [self._input.diagnose(name, self._is_moving, publishers, time.monotonic())]


@console_program
def main(args: Sequence[str] | None = None) -> int:
    """``ros2 run vla_edge_ros tabletop``; 0 after the last episode or on a signal, 1 on an error."""
    nodes: list[TabletopNode] = []
    command_line = CommandLine(sys.argv[1:] if args is None else args, [TabletopConfig])

    def create(stop: StopRequest) -> Sequence[Runnable]:
        command_line.refuse_unknown()
        texts = command_line.texts(TabletopConfig)
        overrides = [Parameter(name, value=text) for name, text in texts.items()]
        nodes.append(TabletopNode(on_finished=stop.request, parameter_overrides=overrides))
        command_line.refuse_strangers_files([nodes[0].get_fully_qualified_name()])
        return nodes

    exit_code = run_nodes(create, args)
    return 1 if any(node.error for node in nodes) else exit_code


if __name__ == "__main__":
    sys.exit(main())
