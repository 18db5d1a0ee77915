# SPDX-License-Identifier: Apache-2.0
"""What a control cycle costs without its engine: slot, admission, descriptor, memory, eviction, answer.

``python -m vla_edge_ros.bench.hops.cycle_overhead [--cycles 5000] [--json PATH]``; the cache is full, the
policy is the default, the answer goes to a list (the ROS publish is measured by the live run).
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.report import command, machine, print_table, quantiles, write_json
from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.descriptor import describe
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.model.action_head import ActionHead
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.runtime.admission import make_admission
from vla_edge_ros.runtime.control_loop import ControlLoop
from vla_edge_ros.runtime.cycle_answers import CycleAnswers
from vla_edge_ros.runtime.deadline_watchdog import DeadlineWatchdog
from vla_edge_ros.runtime.fallback import FallbackLadder
from vla_edge_ros.runtime.frame_slot import FrameSlot
from vla_edge_ros.runtime.metrics import RunMetrics
from vla_edge_ros.runtime.pinned_prompt import Prompt
from vla_edge_ros.types import ActionSource, CacheView, CycleRecord, MemoryReport

STEP_MS = 0.001
PROMPT_TOKENS = 20
MOST_LEFT_OUT = 1000  # cycles


class NoEngine:
    """Answers at once with the same tokens."""

    name = "none"

    def __init__(self, hidden: int, first_token: int):
        self._vision = Vision(np.ones(hidden, np.float32), STEP_MS)
        self._first_token = first_token

    def embed_frame(self, pixels: np.ndarray) -> Vision:
        return self._vision

    def prefill(self, view: CacheView, draft: Sequence[int] = (), suffix: Sequence[int] = ()) -> float:
        return STEP_MS

    def decode(
        self, view: CacheView, count: int, should_stop: Callable[[tuple[float, ...]], bool]
    ) -> Decoded:
        for step in range(count - 1):
            if should_stop((STEP_MS,) * step):
                return Decoded((), (), True)
        return Decoded((self._first_token,) * count, (STEP_MS,) * (count - 1), False)

    def load(self) -> None: ...

    def write_prompt(self, token_ids: NDArray[np.int64], pages: Sequence[int]) -> None: ...

    def memory(self) -> MemoryReport:
        return MemoryReport()

    def close(self) -> None: ...


class LastRecord:
    """Keeps the newest record only."""

    def publish(self, record: CycleRecord) -> None:
        self.record = record


def measure_cycles(cycles: int) -> tuple[list[float], int]:
    """Microseconds of ``cycles`` whole cycles over a full 4,096-slot cache, and how many were left out.

    A cycle in which the machine stalls for longer than admission allows is refused or aborted, and is another
    path than the one that is measured. Raises ``VlaEdgeError`` after ``MOST_LEFT_OUT``.
    """
    config = VlaConfig()
    decoder, policy, sink = resolve(config.model), make_policy(config.cache), LastRecord()
    slot = FrameSlot(config.frame.height, config.frame.width)
    cache = KvCache.for_model(config, policy, decoder.hidden_size)
    cache.set_prompt(PROMPT_TOKENS)
    watchdog = DeadlineWatchdog(10**12)
    watchdog.arm(1, time.monotonic_ns() + 10**15)
    answers = CycleAnswers(
        watchdog,
        FallbackLadder(config.fallback, config.action),
        sink,
        RunMetrics(33.0),
        time.monotonic_ns,
        33_000_000,
    )
    answers.open()
    loop = ControlLoop(
        config,
        slot=slot,
        engine=NoEngine(decoder.hidden_size, decoder.vocab_size - 1),
        cache=cache,
        admission=make_admission(config.timing, config.admission),
        answers=answers,
        describe=lambda pixels, embedding: describe(policy.descriptor, pixels, embedding),
        prompt=Prompt("", np.arange(PROMPT_TOKENS)),
        decode_action=ActionHead(config.action, decoder.vocab_size).decode,
        frame_time_ns=time.monotonic_ns,
    )
    frames = np.random.default_rng(0).integers(
        0, 256, (97, config.frame.height, config.frame.width, 3), dtype=np.uint8
    )
    spent: list[float] = []
    left_out, wanted = 0, cycles + 2 * cache.room
    for cycle in itertools.count(1):
        slot.write(frames[cycle % len(frames)], time.monotonic_ns())
        start_ns = time.monotonic_ns()
        loop.run_cycle(cycle, start_ns)
        if sink.record.source is ActionSource.FRESH:
            spent.append((time.monotonic_ns() - start_ns) / 1000)
        else:
            left_out += 1
        if len(spent) == wanted:
            break
        if left_out > MOST_LEFT_OUT:
            raise VlaEdgeError(
                f"expected a machine that lets cycles run, got {left_out} refused or aborted ones"
            )
    return spent[-cycles:], left_out


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=5000)
    parser.add_argument("--json", default="", help="also write the row there")
    options = parser.parse_args()
    row = {"what": "cycle without engine", "unit": "us", "cycles": options.cycles}
    spent, left_out = measure_cycles(options.cycles)
    row |= {"left_out": left_out, **quantiles(spent)}
    print(machine())
    print_table([row])
    if options.json:
        write_json(options.json, command("hops.cycle_overhead"), [row])


if __name__ == "__main__":
    main()
