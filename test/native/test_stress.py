# SPDX-License-Identifier: Apache-2.0
"""The C++ core without Python, at full speed and under ThreadSanitizer, beside a buffer known to tear."""

from __future__ import annotations

import re

import pytest


@pytest.mark.parametrize("sanitize", [False, True], ids=["plain", "tsan"])
def test_frames_stay_whole_through_stalls_in_mid_copy(run_native, sanitize):
    ran = run_native("slot_stress", sanitize)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    takes, stalls = map(int, re.fullmatch(r"ok: (\d+) takes, (\d+) stalls\n", ran.stdout).groups())
    assert takes >= 1000 and stalls >= 50


@pytest.mark.parametrize("sanitize", [False, True], ids=["plain", "tsan"])
def test_writers_that_take_turns_are_ordered_and_an_overlap_is_refused(run_native, sanitize):
    ran = run_native("writers_stress", sanitize)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    handovers, _ = map(int, re.fullmatch(r"ok: (\d+) handovers, (\d+) refused\n", ran.stdout).groups())
    assert handovers >= 20, "one thread did all the writing"


def test_two_slot_buffer_tears_under_the_same_stall(run_native):
    ran = run_native("two_slot_stress")
    assert (ran.returncode, ran.stdout) == (1, "torn\n")


def test_thread_sanitizer_sees_the_race_of_the_two_slot_buffer(run_native):
    ran = run_native("two_slot_stress", sanitize=True)
    assert ran.returncode != 0
    assert "WARNING: ThreadSanitizer: data race" in ran.stderr


@pytest.mark.parametrize("sanitize", [False, True], ids=["plain", "tsan"])
def test_every_cycle_has_exactly_one_owner_in_a_race(run_native, sanitize):
    ran = run_native("watchdog_race", sanitize)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    owned, watched = map(int, re.match(r"ok: (\d+) owned, (\d+) watched", ran.stdout).groups())
    assert owned > 100 and watched > 100, "the race was one-sided"
