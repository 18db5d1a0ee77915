# SPDX-License-Identifier: Apache-2.0
"""A trial without ROS: footage and the node's runtime in one process, between them the frame slot alone.

What ROS costs is missing here: serialisation, transport, the executor's share of the interpreter.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from vla_edge_ros.bench.run.kept_frames import KeptFrames, WatchedEngine
from vla_edge_ros.bench.run.plan import NODE
from vla_edge_ros.bench.run.trial_options import PARAMETER_FILE, TrialOptions, parse
from vla_edge_ros.bench.run.trial_state import DONE, RUNNING, STARTING, STOPPED, TrialClock, write_state
from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.recording.cycle_recorder import CycleRecorder
from vla_edge_ros.replay.clip import Clip
from vla_edge_ros.replay.open_source import open_source
from vla_edge_ros.replay.read_ahead import ReadAhead
from vla_edge_ros.ros.parameter_file import parameters_for
from vla_edge_ros.ros.parameter_tree import build
from vla_edge_ros.ros.parent_watch import end_with_launch
from vla_edge_ros.runtime.action_sink import ObservedSink
from vla_edge_ros.runtime.cycle_clock import CycleClock
from vla_edge_ros.runtime.frame_slot import FrameSlot
from vla_edge_ros.runtime.reasoner import Reasoner
from vla_edge_ros.types import NS_PER_S, CycleRecord

SPIN_NS = 100_000
LOOK_S = 0.2


class Footage:
    """Writes a frame a tick into ``slot``, on a thread; the source loops. Raises ``SourceError``."""

    def __init__(self, source: str, rate_hz: float, width: int, height: int, slot: FrameSlot):
        self._clip = Clip(open_source(source, rate_hz=rate_hz), width, height, loop=True)
        frames = (frame for passes in self._clip.passes() for frame in passes)
        self._frames = ReadAhead(frames)
        self._slot = slot
        self._clock = CycleClock(round(NS_PER_S / rate_hz), SPIN_NS)
        self._thread = threading.Thread(target=self._write, name="footage", daemon=True)
        self.error = ""

    def start(self) -> None:
        self._frames.start()
        self._thread.start()

    def stop(self) -> None:
        self._clock.stop()
        self._frames.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._clip.close()

    def _write(self) -> None:
        try:
            self._frames.wait_ready()
            self._clock.start()
            while self._clock.wait_next() is not None:
                if (frame := self._frames.take()) is not None:
                    pixels = np.frombuffer(frame.data, np.uint8).reshape(frame.height, frame.width, 3)
                    self._slot.write(pixels, time.time_ns())
                elif self._frames.is_over():  # raises what ended the reader
                    return
        except Exception as error:  # of any kind: told to the owner, it must not die with the thread
            self.error = str(error) or type(error).__name__


class Nowhere:
    """A sink without a publisher."""

    def publish(self, record: CycleRecord) -> None:
        pass


def run(options: TrialOptions, stop: threading.Event) -> None:
    """Raises ``VlaEdgeError`` for what the user can mend."""
    folder = options.folder
    write_state(folder, STARTING)
    config = build(VlaConfig, parameters_for(folder / PARAMETER_FILE, NODE))
    kept = KeptFrames(folder, options.moments_s)
    clock = TrialClock(options.trial_s, kept.begin)
    recorder = CycleRecorder(config.recording.path, config)
    crashes: list[str] = []
    sink = ObservedSink(Nowhere(), [clock, recorder.record])
    engine = WatchedEngine(load_engine(config), kept)
    reasoner = Reasoner(config, engine, sink, time.time_ns, crashes.append)
    try:
        reasoner.warm_up()
        recorder.note_memory(engine.memory())
        frame = config.frame
        footage = Footage(options.source, options.rate_hz, frame.width, frame.height, reasoner.slot)
        try:
            reasoner.start()
            footage.start()
            while not stop.wait(LOOK_S) and not clock.is_over():
                if footage.error or crashes:
                    raise VlaEdgeError(footage.error or crashes[0].strip().splitlines()[-1])
                write_state(folder, RUNNING, clock.elapsed_s)
        finally:
            footage.stop()
            reasoner.stop()
            phase = DONE if clock.elapsed_s >= options.trial_s else STOPPED
            write_state(folder, phase, clock.elapsed_s, **_counts(reasoner))
    finally:
        reasoner.close()
        recorder.close()
        kept.close()


def _counts(reasoner: Reasoner) -> dict[str, Any]:
    metrics, slot = reasoner.metrics.snapshot(), reasoner.slot
    return {
        "frames_received": slot.written,
        "frames_overwritten": slot.overwritten,
        "frames_refused": 0,
        "unanswered_cycles": metrics.unanswered_cycles,
        "dropped_results": metrics.dropped_results,
        "late_messages": metrics.late_messages,
    }


@console_program
def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments, __doc__)
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    end_with_launch()
    try:
        run(options, stop)
    except VlaEdgeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
