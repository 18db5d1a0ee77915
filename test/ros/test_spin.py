# SPDX-License-Identifier: Apache-2.0
"""The executables as processes: what a signal leads to, and what a mistake says."""

import signal
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the executables need rclpy")

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rosbags.highlevel import AnyReader  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

pytestmark = pytest.mark.ros

REPOSITORY = Path(__file__).resolve().parents[2]
TINY = str(REPOSITORY / "config" / "tiny.yaml")
CALM = ["-p", "timing.period_ms:=100.0", "-p", "timing.deadline_ms:=100.0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_a_signal_zero_motion_is_the_last_message_and_the_exit_code_is_0(start, graph, number):
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    statuses = graph.listen(DiagnosticArray, "status")
    process = start(
        "reasoning_node", "--ros-args", "--params-file", TINY, "-r", f"__ns:={graph.namespace}", *CALM
    )
    graph.wait_until(lambda: len(actions) > 5 or process.is_over(), "actions")
    process.signal(number)
    assert process.wait() == 0, process.output
    graph.wait_until(
        lambda: "stopped" in {pair.value for pair in statuses[-1].status[0].values}, "last words"
    )
    # Actions come on another topic: the last may arrive after the last words.
    graph.wait_until(lambda: not any(list(actions[-1].points[0].positions)[:-1]), "zero motion")
    # The middleware tells of the publisher's end after the last of its messages.
    graph.wait_until(lambda: not graph.tester.count_publishers(f"{graph.namespace}/action"))
    values = list(actions[-1].points[0].positions)
    assert not any(values[:-1])
    assert values[-1] == actions[-2].points[0].positions[-1]
    assert "Traceback" not in process.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["reasoning_node", "replay_node", "demo"])
def test_a_signal_during_the_imports_ends_it_without_a_traceback(run_program, name, number):
    """A library that is slow to import says when it is, and catches what it can."""
    process = run_program(
        f"""
import sys, threading
class SlowLibrary:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print("importing", flush=True)
            try:
                while True:
                    threading.Event().wait(0.01)
            except BaseException as error:
                print("caught", repr(error), flush=True)
                raise
sys.meta_path.insert(0, SlowLibrary())
from vla_edge_ros.executables import {name}
sys.exit({name}())
"""
    )
    process.wait_for("importing")
    process.signal(number)
    assert process.wait() == 0, process.output
    assert process.output == "importing\n"


# An engine whose load says when it has begun, and how it ends: "forever" may be broken off, "deaf" is one
# call into native code that no signal ends; a line on standard input does. What happens in the end is said.
SLOW_ENGINE = """
import sys, threading
import vla_edge_ros.ros.reasoning_node as module
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.runtime.native import native

def wait(how):
    print("began", flush=True)
    if how == "forever":
        while True:
            threading.Event().wait(0.01)
    deaf = native.DeadlineWatchdog(10**9)
    deaf.arm(1, 2**62)
    threading.Thread(target=lambda: (sys.stdin.readline(), deaf.stop()), daemon=True).start()
    deaf.wait()

class SlowEngine:
    def __init__(self, config):
        self.engine = load_engine(config)
    def __getattr__(self, name):
        return getattr(self.engine, name)
    def load(self):
        if "load" in SLOW:
            wait(SLOW["load"])
        self.engine.load()
    def close(self):
        if "close" in SLOW:
            wait(SLOW["close"])
        self.engine.close()
        print("engine closed", flush=True)

def make_engine(config):
    if "make" in SLOW:
        wait(SLOW["make"])
    return SlowEngine(config)

module.ReasoningNode.__init__.__kwdefaults__["make_engine"] = make_engine
sys.exit(module.main())
"""
SIGNALS = [signal.SIGINT, signal.SIGTERM]


def slow(where: str, how: str) -> str:
    return f"SLOW = { ({where: how})!r}\n{SLOW_ENGINE}"


def with_recording(graph, tmp_path, *args: str) -> list[str]:
    options = ["-r", f"__ns:={graph.namespace}", "-p", f"recording.path:={tmp_path}", *CALM, *args]
    return ["--ros-args", "--params-file", TINY, *options]


def assert_ended_well(process, tmp_path) -> None:
    assert process.wait() == 0, process.output
    assert "Traceback" not in process.output and "exception" not in process.output, process.output
    [bag] = tmp_path.glob("run_*/topics")
    with AnyReader([bag]) as reader:  # raises where the file or its index was not finished
        assert {connection.topic for connection in reader.connections} >= {"/diagnostics"}


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(("where", "how"), [("load", "forever"), ("load", "deaf"), ("make", "forever")])
def test_a_signal_while_an_engine_loads_releases_everything(run_program, graph, tmp_path, number, where, how):
    process = run_program(slow(where, how), *with_recording(graph, tmp_path))
    process.wait_for("began")
    process.signal(number)
    if how == "deaf":
        process.say("end the call")
    assert_ended_well(process, tmp_path)
    if where == "load":
        assert process.output.count("engine closed") == 1
    assert "active: an action every" not in process.output


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_does_not_break_off_the_release(run_program, graph, tmp_path, number):
    process = run_program(
        slow("close", "deaf").replace("SLOW =", 'SLOW = {"load": "forever"} |'),
        *with_recording(graph, tmp_path),
    )
    process.wait_for("began")
    process.signal(number)
    process.wait_for("began\nbegan")
    process.signal(number)
    process.say("end the call")
    assert_ended_well(process, tmp_path)
    assert process.output.count("engine closed") == 1


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_node_looks_for_other_publishers_ends_the_activation(
    run_program, graph, tmp_path, number
):
    process = run_program(slow("", ""), *with_recording(graph, tmp_path, "-p", "discovery_ms:=1000000.0"))
    process.wait_for("configured: ")
    process.signal(number)
    assert_ended_well(process, tmp_path)
    assert process.output.count("engine closed") == 1


@pytest.mark.parametrize(("transition", "where"), [("CONFIGURE", "load"), ("CLEANUP", "close")])
def test_a_signal_during_a_transition_that_a_manager_asked_for(
    run_program, graph, tmp_path, transition, where
):
    process = run_program(slow(where, "deaf"), *with_recording(graph, tmp_path, "-p", "autostart:=false"))
    client = graph.tester.create_client(ChangeState, "vla_reasoner/change_state")
    graph.wait_until(client.service_is_ready)
    for step in dict.fromkeys(["CONFIGURE", transition]):
        number = getattr(Transition, f"TRANSITION_{step}")
        asked = client.call_async(ChangeState.Request(transition=Transition(id=number)))
        if step != transition:
            graph.wait_until(asked.done)
    process.wait_for("began")
    process.signal(signal.SIGTERM)
    process.say("end the call")
    assert_ended_well(process, tmp_path)
    assert process.output.count("engine closed") == 1


def test_a_signal_while_active_finishes_the_recording_too(run_program, graph, tmp_path):
    process = run_program(slow("", ""), *with_recording(graph, tmp_path))
    process.wait_for("active: an action every")
    process.signal(signal.SIGTERM)
    assert_ended_well(process, tmp_path)
    assert process.output.count("engine closed") == 1


def test_a_refused_source_beside_a_reasoner_that_was_made_already(run_program, graph, tmp_path):
    program = """
import sys
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.replay_node import ReplayNode
from vla_edge_ros.ros.spin import run_nodes

def create(stop):
    yield ReasoningNode()
    yield ReplayNode()

sys.exit(run_nodes(create))
"""
    process = run_program(program, *with_recording(graph, tmp_path, "-p", "source:=/no/such.mp4"))
    assert process.wait() == 1
    assert "/no/such.mp4" in process.output
    assert "Traceback" not in process.output and "exception" not in process.output


def test_several_signals_change_nothing_about_a_clean_stop(start):
    process = start("demo", "--ros-args", "-r", "__ns:=/several", *CALM)
    process.wait_for("active: an action every")
    for _ in range(5):
        process.signal(signal.SIGINT)
    assert process.wait() == 0, process.output
    assert "Traceback" not in process.output


def test_the_demo_ends_after_its_duration_with_a_summary(start):
    process = start("demo", "--duration", "3", "--ros-args", "-r", "__ns:=/duration", *CALM)
    assert process.wait() == 0, process.output
    assert " 2 s | camera" in process.output
    for subject in ("camera", "cycles", "actions", "deadline", "latency", "memory"):
        assert any(line.startswith(subject) for line in process.lines), process.output


def test_the_demo_says_what_is_wrong_with_its_source(start, tmp_path):
    missing = str(tmp_path / "nothing.mp4")
    process = start("demo", "--source", missing, "--duration", "3")
    assert process.wait() == 1
    assert missing in process.output and "Traceback" not in process.output


def test_the_demo_fails_where_the_reasoner_cannot_start(start):
    process = start("demo", "--duration", "3", "--ros-args", "-p", "timing.margin_ms:=40.0")
    assert process.wait() == 1
    assert "timing.margin_ms" in process.output and "Traceback" not in process.output


def test_a_parameter_file_that_cannot_be_read_is_one_line(start, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("/**:\n  ros__parameters:\n    a: [1, 'x']\n")
    process = start("reasoning_node", "--ros-args", "--params-file", str(broken))
    assert process.wait() == 1
    assert str(broken) in process.output and "Traceback" not in process.output
