# SPDX-License-Identifier: Apache-2.0
"""The simulated robot in a live graph: episodes that a scripted driver ends, bad actions, silence."""

from __future__ import annotations

import dataclasses
import json
import threading

import numpy as np
import pytest
from node_under_test import newest, stamp_ns, value

from vla_edge_ros.errors import ConfigError

pytestmark = pytest.mark.ros

# Neither physics nor a reasoner, unless a test says otherwise.
ALONE = {"camera_hz": 30, "physics": False, "reasoner": "", "tasks": ["point"], "delays": [0]}


@pytest.fixture
def make_robot(graph):
    """A node in the test's graph, spun with it; its messages of the topics that it publishes."""
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy.parameter import Parameter
    from sensor_msgs.msg import Image, JointState
    from std_msgs.msg import String

    from vla_edge_ros.ros.tabletop_node import TabletopNode

    made = []

    def make(*, on_finished=None, **parameters):
        overrides = [Parameter(name, value=value) for name, value in {**ALONE, **parameters}.items()]
        node = TabletopNode(namespace=graph.namespace, parameter_overrides=overrides, on_finished=on_finished)
        made.append(node)
        topics = {
            "image": Image,
            "joint_states": JointState,
            "episode": DiagnosticArray,
            "instruction": String,
            "/diagnostics": DiagnosticArray,
        }
        heard = graph.call(lambda: {name: graph.listen(kind, name, 1000) for name, kind in topics.items()})
        graph._executor.add_node(node)
        for name in ("image", "episode", "instruction"):
            graph.wait_until(
                lambda name=name: node.count_subscribers(f"{graph.namespace}/{name}"), f"a listener of {name}"
            )
        return node, heard

    yield make
    for node in made:
        node.stop()
        graph._executor.remove_node(node)
        node.destroy_node()


@pytest.fixture
def short_episodes(monkeypatch):
    """The brake opened long ago: nobody who touches nothing waits longer than a second for the end."""
    from vla_edge_ros.ros import tabletop_node

    draw = tabletop_node.draw
    monkeypatch.setattr(tabletop_node, "draw", lambda *which: dataclasses.replace(draw(*which), go=-80))


@pytest.fixture
def drive(graph):
    """Publishes actions: ``send(velocity)``, or what ``follow`` makes of each episode status."""
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy.qos import QoSProfile
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from vla_edge_ros.tabletop.expert import expert_velocity

    class Driver:
        def __init__(self):
            self.publisher = graph.call(
                lambda: graph.tester.create_publisher(JointTrajectory, "action", QoSProfile(depth=10))
            )

        def matched(self):
            graph.wait_until(self.publisher.get_subscription_count, "the robot to listen for actions")

        def send(self, velocity, names=("vx", "vy"), seconds=1):
            point = JointTrajectoryPoint(positions=[float(v) for v in velocity])
            point.time_from_start.sec = seconds
            message = JointTrajectory(joint_names=list(names), points=[point])
            message.header.stamp = graph.tester.get_clock().now().to_msg()
            self.publisher.publish(message)

        def follow_the_expert(self):
            def answer(message):
                status = message.status[0]
                hand, target = (
                    [float(value(status, f"{name}_{axis}_m")) for axis in "xy"] for name in ("hand", "target")
                )
                self.send(expert_velocity(hand, target))

            graph.call(
                lambda: graph.tester.create_subscription(DiagnosticArray, "episode", answer, 1) is not None
            )

    return Driver()


def test_an_expert_that_knows_only_the_state_topics_ends_every_episode_with_the_right_button(
    make_robot, drive, graph, tmp_path
):
    finished, results = threading.Event(), tmp_path / "runs" / "episodes.jsonl"
    node, heard = make_robot(
        episodes=2, on_finished=finished.set, results=str(results), film=str(tmp_path / "film.gif")
    )
    drive.follow_the_expert()
    drive.matched()
    node.start()
    assert finished.wait(30) and node.error is None
    assert [result.succeeded for result in node.results] == [True, True]
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [row["episode"] for row in rows] == [0, 1] and all(row["succeeded"] for row in rows)
    assert all(row["actions"] > 0 and row["refused_actions"] == 0 for row in rows)
    instructions = [result.instruction for result in node.results]
    graph.wait_until(lambda: len(heard["instruction"]) == 4, "all instructions")
    said = [message.data for message in heard["instruction"]]
    assert said == ["stand by", instructions[0], "stand by", instructions[1]]  # never the same twice in a row
    graph.wait_until(lambda: value(newest(heard["episode"], "Episode"), "ended") == "1", "the last status")
    assert value(newest(heard["episode"], "Episode"), "succeeded") == "1"
    node.stop()
    from PIL import Image

    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames > 4 and film.width == 384


def test_images_and_joints_come_at_the_rate_with_rising_stamps(make_robot, graph):
    node, heard = make_robot(camera_hz=60)
    node.start()
    graph.wait_until(lambda: len(heard["image"]) >= 60, "60 images")
    graph.wait_until(lambda: len(heard["joint_states"]) >= 60, "60 states")
    stamps = [stamp_ns(image) for image in heard["image"]]
    assert all(a < b for a, b in zip(stamps, stamps[1:], strict=False))
    assert 59e9 / (stamps[59] - stamps[0]) == pytest.approx(60, abs=1) or node.skipped > 0
    image = heard["image"][0]
    assert (image.width, image.height, image.step, image.encoding) == (256, 128, 768, "rgb8")
    assert len(image.data) == 128 * 768 and image.header.frame_id == "camera"
    joints = heard["joint_states"][0]
    assert joints.name == ["yaw", "shoulder", "elbow"] and np.isfinite(joints.position).all()


def hand(heard) -> np.ndarray:
    status = newest(heard["episode"], "Episode")
    return np.array([float(value(status, key)) for key in ("hand_x_m", "hand_y_m")])


def test_silence_stops_the_arm(short_episodes, make_robot, drive, graph):
    node, heard = make_robot(action_timeout_ms=100.0)
    drive.matched()
    node.start()
    graph.wait_until(lambda: heard["episode"], "the first status")
    start = hand(heard)
    drive.send(np.array([-0.2, 0.0]) * np.sign(start[0]), seconds=3600)  # would hold for an hour
    graph.wait_until(lambda: node.results, "the end of the episode")
    statuses = [m.status[0] for m in heard["episode"] if value(m.status[0], "episode") == "0"]
    way = [abs(float(value(status, "hand_x_m")) - start[0]) for status in statuses]
    # 0.2 m/s for the robot's own timeout, then nothing to the end; a stall of half a second costs way.
    assert 0 < way[-1] < 0.021 and set(way[-10:]) == {way[-1]}
    assert node.results[0].touched is None and node.results[0].actions == 1


def test_a_bad_action_is_an_error_in_the_diagnostics_and_moves_nothing(make_robot, drive, graph):
    node, heard = make_robot()
    drive.matched()
    node.start()
    graph.wait_until(lambda: heard["episode"], "the first status")
    start = hand(heard)
    for number, (bad, names) in enumerate(
        [([0.3, 0.0], ("dx", "dy")), ([float("nan"), 0.0], ("vx", "vy")), ([0.1] * 3, ("vx", "vy"))]
    ):
        drive.send(bad, names)  # one by one: the robot takes the newest only
        graph.wait_until(lambda n=number: node._input.refused.total() == n + 1, "the refusal")

    def refused():
        status = newest(heard["/diagnostics"], "Robot")
        return status and "3" in status.message

    graph.wait_until(refused, "the last refusal in the diagnostics")
    status = newest(heard["/diagnostics"], "Robot")
    assert status.level == b"\x02" and "2 positions, got 3" in status.message
    assert [value(status, f"refused_{name}") for name in ("names", "values", "size")] == ["1"] * 3
    assert value(status, "accepted") == "0"
    assert hand(heard) == pytest.approx(start)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"camera_hz": 25}, "camera_hz must be one of 30, 60, got 25"),
        ({"tasks": ["point", "juggle"], "delays": [0, 0]}, "tasks must be one of"),
        ({"delays": [0, 1]}, "delays must have one number a task, got 2 for 1"),
        ({"first_seed": -1}, "first_seed must be at least 0"),
        ({"action_timeout_ms": 0.0}, "action_timeout_ms must be at least 1"),
    ],
)
def test_a_parameter_that_cannot_work_is_refused_in_one_line(ros_context, parameters, says):
    from rclpy.parameter import Parameter

    from vla_edge_ros.ros.tabletop_node import TabletopNode

    values = {**ALONE, **parameters}
    with pytest.raises(ConfigError, match=says):
        TabletopNode(parameter_overrides=[Parameter(name, value=value) for name, value in values.items()])


def test_stop_in_the_middle_of_an_episode_gives_no_result(make_robot, graph):
    node, heard = make_robot()
    node.start()
    graph.wait_until(lambda: len(heard["image"]) > 3, "some images")
    node.stop()
    node.stop()
    assert node.results == [] and node.error is None


def test_a_node_that_never_started_can_be_stopped(make_robot):
    node, _ = make_robot()
    node.stop()
    assert node.published == 0


def test_each_episode_begins_with_a_reasoner_that_has_forgotten_the_last_one(
    short_episodes, make_robot, graph
):
    records = []
    graph.reasoner(
        node_args={"observers": [records.append]},
        action__names=["vx", "vy"],
        action__low=[-0.4, -0.4],
        action__high=[0.4, 0.4],
        action__kinds=["rate", "rate"],
        timing__period_ms=50.0,
        timing__deadline_ms=50.0,
    )
    node, heard = make_robot(reasoner="vla_reasoner", tasks=["recall"], delays=[0])
    node.start()
    graph.wait_until(lambda: any(r.slots_in_use for r in records), "frames to be kept")
    first_text = "touch the last lit button"
    graph.wait_until(lambda: len(node.results) == 1, "the first episode to end")
    graph.wait_until(lambda: len(heard["instruction"]) == 4, "the second episode's instruction")
    assert [m.data for m in heard["instruction"]] == ["stand by", first_text] * 2
    number = len(records)
    before = max(record.slots_in_use for record in records[:number])
    graph.wait_until(lambda: any(r.outcome.value == "acted" for r in records[number:]), "the second episode")
    acted = next(record for record in records[number:] if record.outcome.value == "acted")
    assert acted.slots_in_use < before and acted.evicted_sequence is None
