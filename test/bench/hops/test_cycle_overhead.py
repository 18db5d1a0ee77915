# SPDX-License-Identifier: Apache-2.0
"""The benchmark times real cycles: every one acts, over a full cache."""

from __future__ import annotations

from vla_edge_ros.bench.hops.cycle_overhead import measure_cycles


def test_one_time_for_each_cycle_after_the_cache_is_full():
    assert len(spent := measure_cycles(20)) == 20
    assert min(spent) > 1.0  # microseconds: nothing that runs the loop is faster
