# SPDX-License-Identifier: Apache-2.0
"""The monitor in a live graph, and its words against those that the code publishes."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="the monitor needs rclpy")

from published_messages import published  # noqa: E402

from vla_edge_ros.errors import ConfigError  # noqa: E402
from vla_edge_ros.monitor.graph_state import GraphState  # noqa: E402
from vla_edge_ros.monitor.line import painted  # noqa: E402
from vla_edge_ros.monitor.reading import Reading  # noqa: E402
from vla_edge_ros.monitor.screen import View, screen  # noqa: E402
from vla_edge_ros.ros.monitor import MonitorNode, _parse  # noqa: E402

pytestmark = pytest.mark.ros


def texts(state: GraphState, now_s: float) -> list[str]:
    return [painted(line, 300, has_colour=False) for line in screen(state, View(300, 60), now_s, 1e9)]


def test_every_key_that_is_shown_is_one_that_the_code_publishes(monkeypatch):
    """A renamed key, subject or word would be a figure that is missing for ever."""

    def published_text(reading: Reading, key: str) -> str:
        assert key in reading.values, f"{reading.name} has no key {key}"
        asked.add((reading.subject, key))
        return reading.values[key]

    asked: set[tuple[str, str]] = set()
    monkeypatch.setattr(Reading, "text", published_text)
    messages, state = published(), GraphState("/vla")
    state.take_status(messages["/vla/status"], 1.0, 1e9)
    state.take_diagnostics(messages["/diagnostics"], 1.0, 1e9)
    state.take_episode(messages["/vla/episode"], 1.0)
    lines = texts(state, 1.0)
    for subject in (
        "Cycle",
        "Camera",
        "Deadline",
        "Admission",
        "KV cache",
        "Action",
        "GPU",
        "Robot",
        "Episode",
    ):
        assert any(known == subject for known, _ in asked), subject
    assert "deadline 33.0 ms" in "".join(lines) and "acted 100.0 %" in "".join(lines)
    assert not any("waiting" in line for line in lines)


@pytest.fixture
def monitor(graph):
    """A monitor in the graph's namespace; it shows nothing."""
    node = graph.call(lambda: MonitorNode(graph.namespace, lambda state: None, 0.1, lambda: None))
    graph.call(lambda: graph._add(node) or node.start() or True)
    return node


def test_a_running_reasoner_is_seen_with_its_figures(graph, monitor):
    camera = graph.camera(60.0)
    reasoner = graph.reasoner()
    state = monitor.state
    graph.wait_until(lambda: state.since_start.fresh > 3, "fresh actions")
    graph.wait_until(
        lambda: state.subject("Camera") and state.subject("Camera").reading.number("rate_hz") > 0, "a rate"
    )
    assert state.node == reasoner.get_fully_qualified_name()
    assert state.deadline_ms() == 100.0
    assert state.cycle.reading.number("latency_ms") > 0
    assert reasoner.count_subscribers(f"{graph.namespace}/image") == 1  # the reasoner's own
    camera.is_on = False
    graph.wait_until(lambda: any(fault.subject == "Camera" for fault in state.faults.newest(9)), "a fault")


def test_a_reasoner_in_another_namespace_is_named(graph, monitor):
    from diagnostic_msgs.msg import DiagnosticArray

    graph.call(lambda: graph.tester.create_publisher(DiagnosticArray, "/elsewhere/vla/status", 10))
    graph.wait_until(lambda: monitor.state.publishers.elsewhere, "the other topic")
    assert monitor.state.publishers.elsewhere == ("/elsewhere/vla/status",)
    assert monitor.state.publishers.status == 0
    assert "  there is /elsewhere/vla/status: watch it with --namespace elsewhere/vla" in texts(
        monitor.state, 1.0
    )


def test_a_message_of_any_kind_ends_no_monitor(graph, monitor):
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

    publisher = graph.call(lambda: graph.tester.create_publisher(DiagnosticArray, "status", 10))
    graph.wait_until(publisher.get_subscription_count, "the monitor")
    odd = [
        DiagnosticArray(),
        DiagnosticArray(status=[DiagnosticStatus()]),
        DiagnosticArray(status=[DiagnosticStatus(name=": Cycle", level=b"\xff", message="\x1b[2J")]),
        DiagnosticArray(
            status=[
                DiagnosticStatus(
                    name="/n: Cycle", values=[KeyValue(key=key, value="nan") for key in ("cycle", "outcome")]
                )
            ]
        ),
    ]
    for message in odd:
        publisher.publish(message)
    graph.wait_until(lambda: monitor.state.since_start.total == 2, "the two cycles among them")
    assert all(line.isprintable() for line in texts(monitor.state, 1.0))


def test_a_namespace_that_cannot_be_one_is_refused(ros_context):
    with pytest.raises(ConfigError, match="--namespace must be a ROS namespace, got 'a b'"):
        MonitorNode("a b", lambda state: None, 1.0, lambda: None)


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "x"])
def test_a_duration_that_cannot_be_is_refused(seconds, capsys):
    with pytest.raises(SystemExit):
        _parse(["--duration", seconds])
    assert "--duration" in capsys.readouterr().err


def test_defaults_and_what_stands_behind_ros_args():
    options, ros_args = _parse(["--lines", "--ros-args", "-r", "__ns:=/robot1/vla"])
    assert (options.namespace, options.lines, options.duration) == ("vla", True, 0.0)
    assert ros_args == ["-r", "__ns:=/robot1/vla"]
