# SPDX-License-Identifier: Apache-2.0
"""Cue retention: the policies see what they would see, and the claim that made the default."""

from __future__ import annotations

from vla_edge_ros.bench.studies.cue_retention import play, rows_of
from vla_edge_ros.kv_cache.eviction import POLICY_NAMES


def test_novelty_holds_the_cue_where_fifo_has_lost_it():
    played = [play(("recall", 28, 120, number)) for number in range(3)]
    assert set(played[0]) == set(POLICY_NAMES)
    assert all(each["novelty"] == (True, True) for each in played)
    assert not any(each["fifo"][0] for each in played)


def test_a_cache_that_forgets_nothing_keeps_the_cue_under_every_policy():
    assert all(kept == (True, True) for kept in play(("recall", 300, 5, 0)).values())


def test_rows_count_episodes():
    played = [dict.fromkeys(POLICY_NAMES, (True, number > 0)) for number in range(4)]
    row = rows_of("recall", 28, 280, played)[0]
    assert (row["kept_at_go"], row["kept_at_end"], row["episodes"]) == (1.0, 0.75, 4)
    assert row["kept_at_end_low"] < 0.75 < row["kept_at_end_high"]
