# SPDX-License-Identifier: Apache-2.0
"""Cycles by the second, against a list of all that came."""

import math
import random
from collections import Counter

from vla_edge_ros.monitor.last_minute import MOST_LATENCIES, OTHER, SECONDS, LastMinute


def test_the_minute_is_what_came_in_its_seconds():
    random.seed(1)
    minute, came, now_s = LastMinute(), [], 1000.0
    for _ in range(3000):
        now_s += random.choice([0.01, 0.03, 0.5])
        outcome, source, reason = random.choice(
            [
                ("acted", "fresh", "within_budget"),
                ("refused", "repeat", "over_budget"),
                ("late", "zero", "none"),
            ]
        )
        latency_ms = random.choice([random.uniform(1, 50), math.nan])
        minute.second(now_s).count(outcome, source, reason, latency_ms)
        came.append((int(now_s), outcome, source, reason, latency_ms))
    recent = [row for row in came if row[0] > int(now_s) - SECONDS]
    assert 0 < len(recent) < len(came)
    total = minute.total(now_s)
    assert total.outcomes == Counter(row[1] for row in recent)
    assert total.sources == Counter(row[2] for row in recent)
    assert total.refusals == Counter(row[3] for row in recent if row[1] == "refused")
    fresh = [row[4] for row in recent if row[2] == "fresh" and not math.isnan(row[4])]
    assert sorted(total.latencies_ms) == sorted(fresh)
    assert total.total == len(recent) and total.fresh == sum(row[2] == "fresh" for row in recent)
    by_second = minute.by_second(now_s)
    assert len(by_second) == SECONDS
    counts = Counter(row[0] for row in recent)
    assert [c.total if c else 0 for c in by_second] == [counts[int(now_s) - n] for n in range(SECONDS)][::-1]


def test_nothing_is_left_of_a_minute_ago():
    minute = LastMinute()
    minute.second(5.0).count("acted", "fresh", "none", 1.0)
    assert minute.total(64.9).total == 1
    assert minute.total(65.0).total == 0 and set(minute.by_second(65.0)) == {None}


def test_a_clock_that_goes_back_counts_in_the_newest_second():
    minute = LastMinute()
    minute.second(100.0).count("acted", "fresh", "none", 1.0)
    minute.second(3.0).count("acted", "fresh", "none", 1.0)
    assert minute.total(100.5).total == 2


def test_words_and_floods_of_a_stranger_fill_no_memory():
    minute = LastMinute()
    for number in range(MOST_LATENCIES + 500):
        minute.second(7.0).count(f"outcome {number}", "fresh", "", 1.0)
        minute.second(7.0).count("refused", f"source {number}", f"reason {number}", 1.0)
    total = minute.total(7.0)
    assert set(total.outcomes) == {OTHER, "refused"} and set(total.refusals) == {OTHER}
    assert set(total.sources) == {OTHER, "fresh"} and len(total.latencies_ms) == MOST_LATENCIES
