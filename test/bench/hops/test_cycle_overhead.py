# SPDX-License-Identifier: Apache-2.0
"""The benchmark times real cycles over a full cache, and leaves out those in which the machine stalled."""

from __future__ import annotations

import itertools
import time

import pytest

from vla_edge_ros.bench.hops.cycle_overhead import NoEngine, measure_cycles
from vla_edge_ros.errors import VlaEdgeError

LONGER_THAN_A_PERIOD_S = 0.04


def stall_in_every(monkeypatch, period: int) -> None:
    """Of so many embeddings one takes longer than a control period."""
    embed, calls = NoEngine.embed_frame, itertools.count(1)

    def stalls(self, pixels):
        if next(calls) % period == 0:
            time.sleep(LONGER_THAN_A_PERIOD_S)
        return embed(self, pixels)

    monkeypatch.setattr(NoEngine, "embed_frame", stalls)


def test_one_time_for_each_cycle_after_the_cache_is_full():
    spent, _ = measure_cycles(20)
    assert len(spent) == 20
    assert min(spent) > 1.0  # microseconds: nothing that runs the loop is faster


def test_cycles_in_which_the_machine_stalls_are_counted_and_left_out(monkeypatch):
    stall_in_every(monkeypatch, 50)
    spent, left_out = measure_cycles(20)
    assert len(spent) == 20 and left_out >= 5


def test_a_machine_that_stalls_all_the_time_is_an_error(monkeypatch):
    embed = NoEngine.embed_frame
    monkeypatch.setattr(NoEngine, "embed_frame", lambda self, pixels: embed(self, time.sleep(0.04) or pixels))
    monkeypatch.setattr("vla_edge_ros.bench.hops.cycle_overhead.MOST_LEFT_OUT", 5)
    with pytest.raises(VlaEdgeError, match="got 6 refused or aborted"):
        measure_cycles(20)
