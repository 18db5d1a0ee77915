# SPDX-License-Identifier: Apache-2.0
"""A scripted engine that really sleeps, and a sink that can be waited on."""

from __future__ import annotations

import threading

import numpy as np

from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.types import MemoryReport, Outcome

PIXELS = np.random.default_rng(0).integers(0, 256, (64, 128, 3), dtype=np.uint8)


class SleepingEngine:
    """Takes ``prefill_s`` a chunk; a set ``hold`` event makes the prefill wait for ``release``."""

    name = "sleeping"

    def __init__(self):
        self.prefill_s = 0.0
        self.hold = threading.Event()
        self.release = threading.Event()
        self.holding = threading.Event()
        self.broken: Exception | None = None
        self.prompts = []
        self.chunks = []  # pages seen and draft offered, a chunk
        self.closed = 0

    def load(self):
        if self.broken:
            raise self.broken

    def write_prompt(self, token_ids, pages):
        self.prompts.append(len(token_ids))

    def embed_frame(self, pixels):
        return Vision(np.ones(64, np.float32), 0.01)

    def prefill(self, view, draft=(), suffix=()):
        self.chunks.append((len(view.pages), tuple(draft)))
        if self.hold.is_set():
            self.holding.set()
            self.release.wait(10)
        if self.broken:
            raise self.broken
        return 0.1 + self.prefill_s

    def decode(self, view, count, should_stop):
        return Decoded(tuple(range(300, 300 + count)), (0.01,) * (count - 1), False)

    def memory(self):
        return MemoryReport()

    def close(self):
        self.closed += 1


class Recorder:
    """A sink that remembers and can be waited on."""

    def __init__(self):
        self.records = []
        self.arrived = threading.Condition()

    def publish(self, record):
        with self.arrived:
            self.records.append(record)
            self.arrived.notify_all()

    def wait_for(self, matches, count=1, timeout=20):
        with self.arrived:
            assert self.arrived.wait_for(lambda: sum(map(matches, self.records)) >= count, timeout), (
                f"waited {timeout} s in vain; outcomes {[record.outcome.value for record in self.records]}"
            )


def acted(record):
    return record.outcome is Outcome.ACTED


def act(run):
    """Send frames until one more was acted on: on a busy machine a chunk may come too late."""
    before = sum(map(acted, run.sink.records))
    while sum(map(acted, run.sink.records)) == before:
        run.camera()
        run.sink.wait_for(lambda record: True, len(run.sink.records) + 2)


def act_then_hang(run):
    """One frame is acted on; the engine hangs in the prefill of the next one, until ``release`` is set."""
    run.camera()
    run.sink.wait_for(acted)
    run.engine.hold.set()
    run.camera()
    assert run.engine.holding.wait(10)
