# SPDX-License-Identifier: Apache-2.0
"""Bags recorded by others and made here play the pictures that are in them, at their times."""

from __future__ import annotations

import logging
import sqlite3

import av
import numpy as np
import pytest
from made_bags import STORAGES, TYPES, levels, noisy, raw, text, write_bag
from mcap.writer import Writer as McapWriter
from rosbags.rosbag2 import CompressionMode, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.bag import BagSource
from vla_edge_ros.replay.open_source import open_source


@pytest.mark.parametrize("kind", ["mcap", "sqlite3"])
def test_jpeg_bag_holds_the_clip_it_was_made_from(kind, data_dir, warnings):
    frames = list(open_source(str(data_dir / "bags" / f"made_bridge_sweep_compressed_{kind}")))
    assert len(frames) == 91
    assert [round(frame.media_ns * 15 / 1e9) for frame in frames] == list(range(91))
    with av.open(str(data_dir / "clips" / "bridge_sweep_granular.mp4")) as clip:
        for ours, frame in zip(frames, clip.decode(video=0), strict=True):
            truth = np.asarray(frame.to_image()).astype(int)
            assert np.abs(ours.pixels - truth).mean() < 4  # JPEG lies between
    assert warnings() == []


def test_raw_bgr_bag_holds_the_clip_it_was_made_from(data_dir):
    frames = list(open_source(str(data_dir / "bags" / "made_bridge_cabinet_raw_sqlite3")))
    assert len(frames) == 15
    with av.open(str(data_dir / "clips" / "bridge_close_cabinet.mp4")) as clip:
        truth = {np.asarray(frame.to_image()).tobytes() for frame in clip.decode(video=0)}
    assert all(frame.pixels.tobytes() in truth for frame in frames)
    assert [round(frame.media_ns * 15 / 1e9) for frame in frames] == list(range(15))


def test_mono_bag_matches_its_rows_read_by_sqlite(data_dir):
    path = data_dir / "bags" / "ait_images" / "images.bag_0.db3"
    with sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True) as database:
        rows = database.execute("SELECT timestamp, data FROM messages ORDER BY timestamp").fetchall()
    frames = list(open_source(str(path.parent)))
    assert [frame.media_ns for frame in frames] == [time - rows[0][0] for time, _ in rows]
    assert len(frames) == 3
    for frame, (_, data) in zip(frames, rows, strict=True):
        assert frame.pixels.shape == (2, 2, 3)
        assert np.ptp(frame.pixels, axis=-1).max() == 0
        assert frame.pixels[..., 0].tobytes() in data


@pytest.mark.parametrize("topic", ["/image", "/compressed_image", "image"])
def test_either_image_topic_of_a_large_recording_plays(topic, data_dir):
    path = data_dir / "bags" / "rerun_rosbag2_2025_09_10-13_03_56_0.mcap"
    (frame,) = open_source(str(path), bag_topic=topic)
    assert frame.pixels.shape == (480, 640, 3) and frame.pixels.std() > 10


def test_the_first_of_several_image_topics_is_taken_and_said(data_dir, caplog):
    caplog.set_level("INFO", logger="vla_edge_ros.replay")
    path = data_dir / "bags" / "rerun_rosbag2_2025_09_10-13_03_56_0.mcap"
    source = BagSource(path)
    assert source.topic in ("/image", "/compressed_image")
    (record,) = caplog.records
    assert source.topic in record.message and "bag_topic" in record.message
    assert "/image" in record.message and "/compressed_image" in record.message


@pytest.mark.parametrize("bag", ["rosbag2_mcap_talker", "rosbag2_sqlite3_test_bag_for_seek"])
def test_a_bag_without_an_image_topic_is_one_clear_error(bag, data_dir):
    with pytest.raises(SourceError, match=f"{bag} is a bag without an image topic"):
        open_source(str(data_dir / "bags" / bag))


@pytest.mark.parametrize(
    "bag", ["rerun_rosbag2_2025_09_10-13_03_56_0.mcap", "made_bridge_sweep_compressed_mcap"]
)
def test_the_index_of_a_recording_is_used(bag, data_dir, caplog):
    caplog.set_level("INFO", logger="vla_edge_ros.replay")
    BagSource(data_dir / "bags" / bag)
    assert not [record for record in caplog.records if "index" in record.message]


def test_a_wrong_bag_topic_names_the_right_ones(data_dir):
    with pytest.raises(SourceError, match="no image topic '/camera', only .*/image"):
        open_source(str(data_dir / "bags" / "ait_images"), bag_topic="/camera")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("bare", [False, True])
def test_messages_of_other_topics_change_nothing(storage, bare, tmp_path):
    messages = []
    for i in range(5):
        messages += [("/talk", i * 10, text(i)), ("/cam", i * 10 + 3, raw(50 + i))]
    path = write_bag(tmp_path / "bag", messages, storage)
    frames = list(open_source(str(next(path.glob(f"*.{storage}")) if bare else path)))
    assert levels(frames) == [50, 51, 52, 53, 54]
    assert [frame.media_ns for frame in frames] == [i * 10_000_000 for i in range(5)]


@pytest.mark.parametrize("mode", [CompressionMode.MESSAGE, CompressionMode.FILE])
def test_compressed_bags_play(mode, tmp_path):
    messages = [("/cam", i, raw(i)) for i in range(4)]
    path = write_bag(tmp_path / "bag", messages, "db3", mode)
    assert levels(open_source(str(path))) == [0, 1, 2, 3]


@pytest.mark.parametrize("storage", STORAGES)
def test_a_message_type_that_nobody_knows_does_not_matter(storage, tmp_path):
    types = get_typestore(Stores.LATEST)
    types.register(get_types_from_msg("int32 x", "gone_msgs/msg/Gone"))
    with Writer(tmp_path / "bag", version=9, storage_plugin=STORAGES[storage]) as writer:
        gone = writer.add_connection("/gone", "gone_msgs/msg/Gone", typestore=types)
        writer.write(gone, 0, b"\x00\x01\x00\x00\xff")
        camera = writer.add_connection("/cam", "sensor_msgs/msg/Image", typestore=types)
        writer.write(camera, 5, TYPES.serialize_cdr(raw(9), "sensor_msgs/msg/Image"))
    for file in (tmp_path / "bag").glob("*.*"):  # a definition that cannot be parsed, of the same length
        file.write_bytes(file.read_bytes().replace(b"int32 x", b"]int32["))
    assert levels(open_source(str(tmp_path / "bag"))) == [9]


def test_row_padding_and_big_steps_are_taken_off(tmp_path):
    message = raw(7, step=32)
    message.data.reshape(4, 32)[:, 18:] = 255
    path = write_bag(tmp_path / "bag", [("/cam", 0, message)])
    (frame,) = open_source(str(path))
    assert frame.pixels.shape == (4, 6, 3) and frame.pixels.min() == frame.pixels.max() == 7


def test_json_and_protobuf_beside_the_images_change_nothing(tmp_path, warnings):
    """Foxglove's recorders write such channels into the same file."""
    path = tmp_path / "a.mcap"
    with path.open("wb") as file:
        writer = McapWriter(file)
        writer.start(profile="", library="")
        channels = [
            writer.register_channel(
                "/log", "json", writer.register_schema("foxglove.Log", "jsonschema", b"{}")
            ),
            writer.register_channel("/pose", "protobuf", writer.register_schema("Pose", "protobuf", b"\x0a")),
            writer.register_channel("/bare", "json", 0),
            writer.register_channel(
                "/cam", "cdr", writer.register_schema("sensor_msgs/msg/Image", "ros2msg", b"")
            ),
        ]
        for i in range(4):
            for channel in channels:
                writer.add_message(channel, i, bytes(TYPES.serialize_cdr(raw(i), raw(i).__msgtype__)), i)
        writer.finish()
    assert levels(open_source(str(path))) == [0, 1, 2, 3]
    assert warnings() == []


def test_images_that_are_not_serialised_as_cdr_are_named(tmp_path):
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = McapWriter(file)
        writer.start(profile="ros1", library="")
        channel = writer.register_channel(
            "/cam", "ros1", writer.register_schema("sensor_msgs/Image", "ros1msg", b"")
        )
        writer.add_message(channel, 0, b"", 0)
        writer.finish()
    with pytest.raises(SourceError, match=r"it has /cam \(sensor_msgs/Image, ros1\)"):
        open_source(str(tmp_path / "a.mcap"))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("behind", [1, 3, 4, 5, 64])
def test_bytes_behind_the_message_are_ignored(behind, storage, tmp_path, warnings):
    messages = [("/cam", i, raw(i)) for i in range(3)]
    path = write_bag(tmp_path / "bag", messages, storage, behind=b"\xff" * behind)
    assert levels(open_source(str(path))) == [0, 1, 2]
    assert warnings() == []


@pytest.mark.parametrize("storage", STORAGES)
def test_a_bag_from_a_big_endian_machine_plays(storage, tmp_path):
    messages = [("/cam", 0, raw(4)), ("/cam", 1, raw(5, height=9, width=2, step=31))]
    path = write_bag(tmp_path / "bag", messages, storage, little_endian=False)
    assert [frame.pixels.shape for frame in open_source(str(path))] == [(4, 6, 3), (9, 2, 3)]


@pytest.mark.parametrize("storage", STORAGES)
def test_images_may_change_their_size_and_encoding(storage, tmp_path):
    kinds = [("rgb8", 4, 6), ("mono8", 7, 3), ("bgr8", 2, 9)]
    messages = [("/cam", i, raw(i, *kind)) for i, kind in enumerate(kinds)]
    frames = list(open_source(str(write_bag(tmp_path / "bag", messages, storage))))
    assert [frame.pixels.shape for frame in frames] == [(4, 6, 3), (7, 3, 3), (2, 9, 3)]
    assert levels(frames) == [0, 1, 2]


def test_closing_in_the_middle_of_a_pass_is_safe_and_it_can_be_played_again(tmp_path):
    for storage in STORAGES:
        source = open_source(str(write_bag(tmp_path / storage, noisy(20), storage)))
        frames = iter(source)
        next(frames)
        source.close()
        source.close()
        assert len(list(source)) == 20
        source.close()


@pytest.mark.parametrize("storage", STORAGES)
def test_a_recorded_name_cannot_break_a_line_or_steer_a_terminal(tmp_path, caplog, storage):
    name = "/a\r\n\x1b[2J"
    write_bag(tmp_path / "texts", [(name, 0, text(1))], storage)
    with pytest.raises(SourceError) as refusal:
        BagSource(tmp_path / "texts")
    assert str(refusal.value).isprintable() and r"/a\r\n\x1b[2J" in str(refusal.value)
    caplog.set_level(logging.INFO)
    write_bag(
        tmp_path / "images", [(name, 0, raw(9)), ("/b", 0, raw(8, "32FC1")), (name, 1, text(1))], storage
    )
    assert levels(BagSource(tmp_path / "images")) == [9]
    assert len(caplog.messages) >= 2 and all(message.isprintable() for message in caplog.messages)
