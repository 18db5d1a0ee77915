# SPDX-License-Identifier: Apache-2.0
"""Which topic of a bag is the camera: a picture before depth, and what the user names before both."""

from __future__ import annotations

import numpy as np
import pytest
from made_bags import HEADER, STORAGES, TYPES, jpeg, levels, raw, text, write_bag
from rosbags.rosbag2 import StoragePlugin, Writer

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.open_source import open_source


def test_an_encoding_without_a_picture_is_one_clear_error(tmp_path):
    path = write_bag(tmp_path / "bag", [("/depth", 0, raw(0, "32FC1"))])
    with pytest.raises(SourceError, match="no image on /depth that can be decoded: .*32FC1"):
        open_source(str(path))


def test_an_image_topic_without_messages_is_one_clear_error(tmp_path):
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        writer.add_connection("/cam", "sensor_msgs/msg/Image", typestore=TYPES)
        talk = writer.add_connection("/talk", "std_msgs/msg/String", typestore=TYPES)
        writer.write(talk, 0, TYPES.serialize_cdr(text(0), "std_msgs/msg/String"))
    with pytest.raises(SourceError, match="no image on /cam that can be decoded: it has no messages"):
        open_source(str(tmp_path / "bag"))


DEPTH = {
    "16UC1": lambda: raw(3, "16UC1"),
    "mono16": lambda: raw(3, "mono16"),
    "32FC1": lambda: raw(3, "32FC1"),
    "compressedDepth": lambda: jpeg(3, "16UC1; compressedDepth png"),
    "png of 16UC1": lambda: jpeg(3, "16UC1; png compressed 16UC1"),
    "broken": lambda: TYPES.types["sensor_msgs/msg/CompressedImage"](HEADER, "jpeg", np.zeros(9, np.uint8)),
}


@pytest.mark.parametrize("depth", DEPTH)
@pytest.mark.parametrize("storage", STORAGES)
def test_a_topic_with_a_picture_is_preferred_and_named(storage, depth, tmp_path, caplog):
    caplog.set_level("INFO", logger="vla_edge_ros.replay")
    messages = [("/depth", i, DEPTH[depth]()) for i in range(3)]
    messages += [("/colour", 10 + i, raw(70 + i)) for i in range(3)]
    source = open_source(str(write_bag(tmp_path / "bag", messages, storage)))
    assert levels(source) == [70, 71, 72]
    (record,) = caplog.records
    assert "playing /colour (rgb8)" in record.message and "/depth (" in record.message


def test_among_pictures_the_first_is_taken_and_broken_beginnings_do_not_count(tmp_path):
    broken = raw(1)
    broken.data = broken.data[:-1]
    messages = [("/depth", 0, raw(3, "16UC1")), ("/a", 1, broken), ("/a", 2, raw(5)), ("/b", 3, jpeg(9))]
    assert levels(open_source(str(write_bag(tmp_path / "bag", messages)))) == [5]


@pytest.mark.parametrize("storage", STORAGES)
def test_an_empty_topic_is_never_chosen_over_depth(storage, tmp_path):
    with Writer(tmp_path / "bag", version=9, storage_plugin=STORAGES[storage]) as writer:
        writer.add_connection("/empty", "sensor_msgs/msg/Image", typestore=TYPES)
        depth = writer.add_connection("/depth", "sensor_msgs/msg/Image", typestore=TYPES)
        writer.write(depth, 0, TYPES.serialize_cdr(raw(7, "16UC1"), "sensor_msgs/msg/Image"))
    assert levels(open_source(str(tmp_path / "bag"))) == [7]


def test_depth_alone_plays_with_a_warning_that_says_why_it_is_dark(tmp_path, warnings):
    path = write_bag(tmp_path / "bag", [("/depth", i, raw(7, "16UC1")) for i in range(3)])
    assert levels(open_source(str(path))) == [7, 7, 7]
    (warning,) = warnings()
    assert "/depth carries 16UC1" in warning and "65535" in warning


def test_depth_that_the_user_chose_is_played(tmp_path):
    path = write_bag(tmp_path / "bag", [("/depth", 0, raw(7, "16UC1")), ("/colour", 1, raw(9))])
    assert levels(open_source(str(path), bag_topic="depth")) == [7]


def test_a_bag_without_an_image_topic_says_what_it_has(tmp_path):
    path = write_bag(tmp_path / "bag", [("/talk", 0, text(0))])
    with pytest.raises(SourceError, match=r"it has /talk \(std_msgs/msg/String\)"):
        open_source(str(path))


def test_one_topic_name_with_two_types_plays_the_images(tmp_path):
    for storage in STORAGES:
        with Writer(tmp_path / storage, version=9, storage_plugin=STORAGES[storage]) as writer:
            for message, times in [(text(0), (0, 2)), (raw(8), (1, 3))]:
                connection = writer.add_connection("/cam", message.__msgtype__, typestore=TYPES)
                for time in times:
                    writer.write(connection, time, TYPES.serialize_cdr(message, message.__msgtype__))
        assert levels(open_source(str(tmp_path / storage))) == [8, 8]
