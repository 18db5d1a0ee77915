# SPDX-License-Identifier: Apache-2.0
"""Faults are logged with their traceback, not in every cycle, and shown for a while."""

from vla_edge_ros.ros.faults import LOG_EVERY_S, SHOWN_S, FaultLog


class Bench:
    def __init__(self):
        self.now_s, self.lines = 0.0, []
        self.log = FaultLog(self.lines.append, lambda: self.now_s)


def test_the_log_has_the_traceback_and_the_diagnostics_its_last_line():
    bench = Bench()
    bench.log.report("Traceback\n  File x\nKeyError: 'y'\n")
    assert "File x" in bench.lines[0]
    assert bench.log.current() == "KeyError: 'y'"


def test_a_fault_in_every_cycle_does_not_flood_the_log():
    bench = Bench()
    for _ in range(100):
        bench.log.report("again")
    assert len(bench.lines) == 1 and bench.log.count == 100
    bench.now_s += LOG_EVERY_S
    bench.log.report("again")
    assert len(bench.lines) == 2


def test_a_passing_fault_is_shown_for_a_while_and_a_lasting_one_until_cleared():
    bench = Bench()
    bench.log.report("once")
    bench.now_s += SHOWN_S
    assert bench.log.current() == ""
    bench.log.report("cannot configure", lasting=True)
    bench.now_s += 1e6
    assert bench.log.current() == "cannot configure"
    bench.log.clear()
    assert bench.log.current() == ""


def test_any_text_is_reported_as_one_that_a_log_takes():
    bench = Bench()
    bench.log.report("Traceback\nno such file: /models/caf\udce9")
    assert bench.log.current() == r"no such file: /models/caf\udce9"
    bench.lines[0].encode()  # raises for a lone surrogate, as rclpy's logger does
    bench.log.report(" \n", lasting=True)
    assert bench.log.count == 2


def test_a_passing_fault_does_not_end_a_lasting_one():
    bench = Bench()
    bench.log.report("cannot configure", lasting=True)
    bench.log.report("once")
    assert bench.log.current() == "once"
    bench.now_s += SHOWN_S
    assert bench.log.current() == "cannot configure"
