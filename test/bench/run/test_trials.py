# SPDX-License-Identifier: Apache-2.0
"""Trials: their clock, their processes and what they said, the line of progress."""

from __future__ import annotations

import io
import sys

import pytest
from made_run import acted, plan

from vla_edge_ros.bench.run.plan import NAMESPACE
from vla_edge_ros.bench.run.processes import TrialProcesses, commands, environment
from vla_edge_ros.bench.run.progress import Progress
from vla_edge_ros.bench.run.trial_options import TrialOptions, parse
from vla_edge_ros.bench.run.trial_state import RUNNING, TrialClock, read_state, write_state
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.parent_watch import LAUNCH_PID
from vla_edge_ros.types import NS_PER_S, CycleRecord, Outcome


class Now:
    ns = 0

    def __call__(self) -> int:
        return self.ns


def test_the_trial_s_time_begins_with_the_first_picture_even_if_every_chunk_is_refused():
    now, begun = Now(), []
    clock = TrialClock(10.0, lambda: begun.append(now.ns), now)
    clock(CycleRecord(1, Outcome.NO_FRAME_YET))
    now.ns = 5 * NS_PER_S
    assert clock.elapsed_s == 0 and not clock.is_over() and not begun
    clock(CycleRecord(2, Outcome.REFUSED))
    clock(CycleRecord(3, Outcome.REFUSED))
    assert begun == [5 * NS_PER_S] and clock.cycles == 2
    now.ns = 15 * NS_PER_S
    assert clock.is_over()


def test_a_camera_that_sends_nothing_ends_the_trial_with_a_reason():
    now = Now()
    clock = TrialClock(10.0, lambda: None, now)
    now.ns = 61 * NS_PER_S
    with pytest.raises(VlaEdgeError, match="must send a picture within 60 s, got none"):
        clock.is_over()
    clock(acted(1))
    assert not clock.is_over()


def test_state_is_read_back_and_is_starting_where_there_is_none(tmp_path):
    assert read_state(tmp_path)["phase"] == "starting"
    write_state(tmp_path, RUNNING, 1.23456, frames_received=7)
    assert read_state(tmp_path) == {"phase": RUNNING, "elapsed_s": 1.235, "frames_received": 7}


def test_options_of_a_trial_come_back_as_they_were(tmp_path):
    options = TrialOptions(folder=tmp_path / "a b", trial_s=3.3, source="-x y.mp4", rate_hz=59.94)
    assert parse(options.arguments(), None) == options


def test_the_graph_is_apart_from_a_robot_s_and_ends_with_its_starter(tmp_path):
    both = commands(plan(), plan().trials()[0], tmp_path)
    assert f"__ns:=/{NAMESPACE}" in both["camera"] and NAMESPACE != "vla"
    assert list(both) == ["reasoner", "camera"]
    assert list(commands(plan(uses_ros=False), plan().trials()[0], tmp_path)) == ["reasoner"]
    table = commands(plan(source="tabletop", rate_hz=30), plan().trials()[1], tmp_path)["camera"]
    assert "vla_edge_ros.ros.tabletop_node" in table and "first_seed:=1000000" in table
    given = environment({"PATH": "x"})
    assert given["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST" and LAUNCH_PID in given
    assert environment({"ROS_DISTRO": "humble"})["ROS_LOCALHOST_ONLY"] == "1"


def started(folder, program: str) -> TrialProcesses:
    return TrialProcesses({"reasoner": [sys.executable, "-c", program]}, folder)


def test_a_process_that_fails_is_quoted(tmp_path, wait_until):
    processes = started(tmp_path, "import sys; print('error: no such model'); print('bye'); sys.exit(3)")
    wait_until(processes.ended)
    assert processes.ended() == {"reasoner": 3}
    assert processes.last_words("reasoner") == "error: no such model"
    processes.stop()


def test_a_process_is_asked_to_end(tmp_path, wait_until):
    program = (
        "import signal, threading; e = threading.Event(); signal.signal(2, lambda *_: e.set());"
        "print('ready', flush=True); e.wait(); print('ended in order')"
    )
    processes = started(tmp_path, program)
    wait_until(lambda: processes.last_words("reasoner") == "ready")
    processes.stop()
    processes.stop()
    assert processes.ended() == {"reasoner": 0}
    assert processes.last_words("reasoner") == "ended in order"


def test_a_process_that_cannot_be_started_leaves_none_behind(tmp_path):
    with pytest.raises(OSError):
        TrialProcesses({"reasoner": [sys.executable, "-c", ""], "camera": ["/nowhere"]}, tmp_path)


def test_the_line_says_what_runs_and_what_is_left():
    made = plan(duration_s=30.0, warmup_s=3.0)
    trial, out = made.trials()[0], io.StringIO()
    progress = Progress(made, out)
    assert progress.line(0, trial, {"phase": "starting"}) == "[1/2] fifo-1: starting | about 1:22 left"
    progress.learn(38.0)  # 5 s besides the trial's own
    running = {"phase": RUNNING, "elapsed_s": 13.0}
    assert progress.line(0, trial, running) == "[1/2] fifo-1: measuring 10 of 30 s | about 0:58 left"
    assert "warm-up 2 of 3 s | about 0:31 left" in progress.line(1, trial, running | {"elapsed_s": 2.0})
    progress.show(0, trial, running)
    progress.show(0, trial, running)
    assert out.getvalue().count("\n") == 1  # no terminal: a line now and then
