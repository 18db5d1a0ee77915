# SPDX-License-Identifier: Apache-2.0
"""The bag of a run, read back by ``rosbags`` and, where a ROS distribution has it, by rosbag2 itself."""

from __future__ import annotations

import numpy as np
import pytest
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.recording.mcap_writer import McapWriter
from vla_edge_ros.replay.bag import BagSource

TYPES = get_typestore(Stores.ROS2_JAZZY)
TOPICS = {
    "/vla/action": "trajectory_msgs/msg/JointTrajectory",
    "/vla/status": "diagnostic_msgs/msg/DiagnosticArray",
    "/camera/image_raw": "sensor_msgs/msg/Image",
}
START_NS = 1_700_000_000_000_000_000


def header(stamp_ns: int):
    time = TYPES.types["builtin_interfaces/msg/Time"](sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)
    return TYPES.types["std_msgs/msg/Header"](stamp=time, frame_id="camera")


def trajectory(stamp_ns: int, value: float) -> bytes:
    point = TYPES.types["trajectory_msgs/msg/JointTrajectoryPoint"](
        positions=np.array([value]),
        velocities=np.array([]),
        accelerations=np.array([]),
        effort=np.array([]),
        time_from_start=TYPES.types["builtin_interfaces/msg/Duration"](sec=0, nanosec=100_000_000),
    )
    message = TYPES.types[TOPICS["/vla/action"]](header=header(stamp_ns), joint_names=["dx"], points=[point])
    return bytes(TYPES.serialize_cdr(message, TOPICS["/vla/action"]))


def picture(stamp_ns: int, grey: int, height: int = 48, width: int = 64) -> bytes:
    message = TYPES.types[TOPICS["/camera/image_raw"]](
        header=header(stamp_ns),
        height=height,
        width=width,
        encoding="rgb8",
        is_bigendian=0,
        step=3 * width,
        data=np.full(height * width * 3, grey, np.uint8),
    )
    return bytes(TYPES.serialize_cdr(message, TOPICS["/camera/image_raw"]))


def record_run(folder, cycles: int = 120) -> None:
    writer = McapWriter(folder, TOPICS)
    for cycle in range(cycles):
        stamp_ns = START_NS + cycle * 33_000_000
        writer.record("/camera/image_raw", stamp_ns, picture(stamp_ns, cycle % 256))
        writer.record("/vla/action", stamp_ns + 20_000_000, trajectory(stamp_ns, cycle / 100))
    writer.close()
    writer.close()
    assert (writer.dropped, writer.error) == (0, "")


def test_rosbags_reads_every_message_back(tmp_path):
    record_run(tmp_path / "topics")
    with Reader(tmp_path / "topics") as bag:
        assert {connection.topic: connection.msgtype for connection in bag.connections} == TOPICS
        assert bag.message_count == 240
        actions = [
            (time_ns, TYPES.deserialize_cdr(data, connection.msgtype))
            for connection, time_ns, data in bag.messages()
            if connection.topic == "/vla/action"
        ]
    assert [time_ns for time_ns, _ in actions] == [START_NS + i * 33_000_000 + 20_000_000 for i in range(120)]
    assert [message.points[0].positions[0] for _, message in actions] == [i / 100 for i in range(120)]
    assert actions[-1][1].joint_names == ["dx"]


def test_recorded_camera_can_be_replayed(tmp_path):
    """The product's own bag source: what was recorded is a source again."""
    record_run(tmp_path / "topics", cycles=20)
    source = BagSource(tmp_path / "topics", "/camera/image_raw")
    greys = [int(np.asarray(picture.pixels)[0, 0, 0]) for picture in source]
    assert greys == list(range(20))


def test_rosbag2_reads_it(tmp_path):
    rosbag2_py = pytest.importorskip("rosbag2_py", reason="rosbag2_py comes with a ROS distribution")
    record_run(tmp_path / "topics")
    reader = rosbag2_py.SequentialReader()
    reader.open(
        rosbag2_py.StorageOptions(uri=str(tmp_path / "topics"), storage_id="mcap"),
        rosbag2_py.ConverterOptions("cdr", "cdr"),
    )
    count = 0
    while reader.has_next():
        reader.read_next()
        count += 1
    assert count == 240


def test_existing_folder_is_not_written_over(tmp_path):
    with pytest.raises(ConfigError, match="new bag folder"):
        McapWriter(tmp_path, TOPICS)


def test_unknown_message_type_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="NoSuchThing"):
        McapWriter(tmp_path / "topics", {"/x": "std_msgs/msg/NoSuchThing"})
