# SPDX-License-Identifier: Apache-2.0
"""The camera that replays footage: a node that publishes one image a tick.

Threads: the reader decodes ahead (``ReadAhead``); the ticker waits for the steady clock and publishes; the
executor, which other nodes may share, has nothing of this node's to do.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from rclpy.node import Node
from rclpy.parameter import Parameter

from vla_edge_ros.console import console_program
from vla_edge_ros.replay.base import LOGGER
from vla_edge_ros.replay.clip import Clip, ClipFrame
from vla_edge_ros.replay.config import ReplayConfig
from vla_edge_ros.replay.open_source import open_source
from vla_edge_ros.replay.pacing import frames_by_tick
from vla_edge_ros.replay.read_ahead import ReadAhead
from vla_edge_ros.ros.camera_publisher import CameraPublisher
from vla_edge_ros.ros.command_line import CommandLine
from vla_edge_ros.ros.fixed_parameters import FixedParameters
from vla_edge_ros.ros.interrupts import breakable
from vla_edge_ros.ros.listeners import Listeners
from vla_edge_ros.ros.log_bridge import LogBridge
from vla_edge_ros.ros.parameters import declare_config
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes
from vla_edge_ros.runtime.cycle_clock import CycleClock

SPIN_NS = 100_000
LOOK_S = 0.1  # how soon a new listener is seen
WAIT_LOG_S = 10.0


class ReplayNode(Node):
    """``start`` begins to publish, ``stop`` ends it; ``on_finished`` is called, by the ticker, at the end.

    ``error`` says why it ended before the source's end. ``published`` counts images, ``skipped`` the ticks
    that the machine was too late for, ``starved`` those before their frame was decoded. Where it waits for
    a subscriber, it does for ``longest_wait_s`` at most. Raises ``ConfigError`` or ``SourceError`` for what
    cannot play.
    """

    def __init__(
        self,
        *,
        on_finished: Callable[[], None] | None = None,
        longest_wait_s: float = math.inf,
        **node_args: Any,
    ):
        super().__init__("camera", **node_args)
        self.published = self.skipped = self.starved = 0
        self.finished = threading.Event()
        self.error: str | None = None
        self._on_finished = on_finished
        self._longest_wait_s = longest_wait_s
        self._stopping = threading.Event()
        self._log_bridge = LogBridge(LOGGER, self.get_logger())
        try:
            config = self.config = declare_config(self, ReplayConfig)
            self._camera = CameraPublisher(self, config.frame_id)
            with breakable():  # a damaged bag is searched from end to end
                source = open_source(config.source, rate_hz=config.rate_hz, bag_topic=config.bag_topic)
        except BaseException:
            self._log_bridge.close()
            self.destroy_node()
            raise
        self.add_on_set_parameters_callback(FixedParameters(self, ReplayConfig))
        self._listeners = Listeners(self, self._camera.publisher)
        self._clip = Clip(source, *config.size, config.loop)
        ticks = frames_by_tick(self._clip.passes(), config.timing, config.period_ns)
        self._frames: ReadAhead[ClipFrame] = ReadAhead(ticks)
        self._cycle_clock = CycleClock(config.period_ns, SPIN_NS)
        self._ticker = threading.Thread(target=self._tick_until_stopped, name="replay_ticker", daemon=True)

    def start(self) -> None:
        config = self.config
        self.get_logger().info(
            f"replaying {config.source} at {config.rate_hz:g} Hz, {_in_words(*config.size)}, {config.timing}"
        )
        self._frames.start()
        self._ticker.start()

    def stop(self) -> None:
        """End both threads and let go of the source; safe to call twice, and without ``start``."""
        self._stopping.set()
        self._cycle_clock.stop()
        self._frames.stop()
        if self._ticker.is_alive():
            self._ticker.join()
        self._clip.close()
        self._log_bridge.close()

    def _tick_until_stopped(self) -> None:
        try:
            self._frames.wait_ready()
            if self.config.waits_for_subscriber:
                self._wait_for_listeners()
            self._cycle_clock.start()
            while not self._stopping.is_set() and not self.finished.is_set():
                tick = self._cycle_clock.wait_next()
                if tick is not None:
                    self._tick(skipped=tick[3])
        except Exception as error:  # of any kind: told to the node's owner, it must not die with the thread
            self.error = str(error)
            self.get_logger().error(f"replay of {self.config.source} ended: {error}")
            self._finish()

    def _wait_for_listeners(self) -> None:
        """Until they are there and at work, the node is stopped, or ``longest_wait_s`` has passed."""
        began_s = time.monotonic()
        while (missing := self._listeners.missing()) and not self._stopping.is_set():
            if time.monotonic() - began_s > self._longest_wait_s:
                self.get_logger().warning(f"begins without {missing}, after {self._longest_wait_s:g} s")
                return
            self.get_logger().info(
                f"waits for {missing} (wait_for_subscriber)", throttle_duration_sec=WAIT_LOG_S
            )
            self._stopping.wait(LOOK_S)

    def _tick(self, skipped: int) -> None:
        self.skipped += skipped
        if self.config.timing == "media_time":  # media goes on while the machine sleeps through its ticks
            for _ in range(skipped):
                self._frames.take()
        frame = self._frames.take()
        if frame is not None:
            self._camera.publish(frame.data, frame.height, frame.width)
            self.published += 1
        elif self._frames.is_over():
            self._camera.wait_delivered()
            self.get_logger().info(f"end of {self.config.source} after {self.published} images")
            self._finish()
        else:
            self.starved += 1
            self.get_logger().warning(
                f"{self.config.source} cannot be decoded at {self.config.rate_hz:g} Hz: "
                f"{self.starved} ticks without an image so far",
                throttle_duration_sec=5.0,
            )

    def _finish(self) -> None:
        self.finished.set()
        if self._on_finished is not None:
            self._on_finished()


def _in_words(width: int, height: int) -> str:
    if not width and not height:
        return "the source's size"
    return f"{width or 'any'}x{height or 'any'}"


@console_program
def main(args: Sequence[str] | None = None) -> int:
    """``ros2 run vla_edge_ros replay_node``; 0 at the end of the source or on a signal, 1 on an error."""
    nodes: list[ReplayNode] = []
    command_line = CommandLine(sys.argv[1:] if args is None else args, [ReplayConfig])

    def create(stop: StopRequest) -> Sequence[Runnable]:
        command_line.refuse_unknown()
        texts = command_line.texts(ReplayConfig)
        overrides = [Parameter(name, value=text) for name, text in texts.items()]
        nodes.append(ReplayNode(on_finished=stop.request, parameter_overrides=overrides))
        command_line.refuse_strangers_files([nodes[0].get_fully_qualified_name()])
        return nodes

    exit_code = run_nodes(create, args)
    return 1 if any(node.error for node in nodes) else exit_code


if __name__ == "__main__":
    sys.exit(main())
