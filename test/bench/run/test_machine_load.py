# SPDX-License-Identifier: Apache-2.0
"""How many cores others took: of times that are known, and of a process that is known to take one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from vla_edge_ros.bench.run.machine_load import CpuTimes, cpu_times, other_cores

BURN = "import time; e = time.monotonic() + 0.5\nwhile time.monotonic() < e: pass"


def test_busy_is_all_but_idle_and_waiting_and_guests_are_not_counted_twice(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 20 30 4000 500 6 7 8 100 0\ncpu0 1 2 3\n")
    expected_s = (100 + 20 + 30 + 6 + 7 + 8) / os.sysconf("SC_CLK_TCK")
    assert cpu_times(stat).busy_s == pytest.approx(expected_s)


def test_what_is_ours_is_taken_off():
    before, after = CpuTimes(10.0, 100.0, 5.0), CpuTimes(20.0, 118.0, 11.0)
    assert other_cores(before, after) == pytest.approx(1.2)
    assert other_cores(after, after) == 0.0


def test_a_child_that_was_waited_for_is_ours():
    before = cpu_times()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    after = cpu_times()
    assert after.own_s - before.own_s > 0.1
    assert after.busy_s >= before.busy_s
