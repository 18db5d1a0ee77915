# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import shutil
import sqlite3
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.bag import BagSource
from vla_edge_ros.replay.open_source import open_source

TYPES = get_typestore(Stores.LATEST)
HEADER = TYPES.types["std_msgs/msg/Header"](TYPES.types["builtin_interfaces/msg/Time"](0, 0), "")
STORAGES = {"mcap": StoragePlugin.MCAP, "db3": StoragePlugin.SQLITE3}


def raw(level: int, encoding: str = "rgb8", height: int = 4, width: int = 6, step: int = 0):
    channels = {"rgb8": 3, "bgr8": 3, "mono8": 1, "32FC1": 4}[encoding]
    step = step or width * channels
    data = np.full(height * step, level, np.uint8)
    return TYPES.types["sensor_msgs/msg/Image"](HEADER, height, width, encoding, 0, step, data)


def jpeg(level: int):
    file = io.BytesIO()
    Image.new("RGB", (16, 8), (level, level, level)).save(file, "JPEG", quality=95)
    data = np.frombuffer(file.getvalue(), np.uint8)
    return TYPES.types["sensor_msgs/msg/CompressedImage"](HEADER, "jpeg", data)


def text(value: int):
    return TYPES.types["std_msgs/msg/String"](str(value))


def write_bag(
    path: Path, messages, storage: str = "mcap", compression: CompressionMode | None = None
) -> Path:
    """``messages``: ``(topic, time in ms, message)``."""
    writer = Writer(path, version=9, storage_plugin=STORAGES[storage])
    if compression:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for topic, time_ms, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=TYPES)
            writer.write(connections[topic], time_ms * 1_000_000, TYPES.serialize_cdr(message, kind))
    return path


def levels(source) -> list[int]:
    return [int(frame.pixels[0, 0, 0]) for frame in source]


# ---------------------------------------------------------------------------------- recorded by others


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


def test_a_wrong_bag_topic_names_the_right_ones(data_dir):
    with pytest.raises(SourceError, match="no image topic '/camera', only .*/image"):
        open_source(str(data_dir / "bags" / "ait_images"), bag_topic="/camera")


# ------------------------------------------------------------------------------------------ made here


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


def test_a_damaged_image_is_left_out_with_one_warning(tmp_path, warnings):
    short, broken = raw(2), jpeg(2)
    short.data = short.data[:-1]
    broken.data = broken.data[:300]
    raw_bag = write_bag(tmp_path / "raw", [("/cam", 0, raw(1)), ("/cam", 1, short), ("/cam", 2, raw(3))])
    jpeg_bag = write_bag(tmp_path / "jpeg", [("/cam", 0, jpeg(1)), ("/cam", 1, broken), ("/cam", 2, jpeg(3))])
    for path in (raw_bag, jpeg_bag):
        source = open_source(str(path))
        assert levels(source) == levels(source) == [1, 3]
        (warning,) = [said for said in warnings() if str(path) in said]
        assert "/cam" in warning and "left out" in warning


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


def noisy(count: int):
    """Messages that do not compress, so that a cut in the middle of the file is one in the middle of them."""
    rng = np.random.default_rng(1)
    for i in range(count):
        message = raw(0, height=64, width=64)
        message.data[:] = rng.integers(0, 255, message.data.size, np.uint8)
        message.data[0] = i % 256
        yield ("/cam", i * 100, message)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("part", [0.4, 0.7, 0.95])
@pytest.mark.parametrize("storage", STORAGES)
def test_a_bag_cut_short_plays_up_to_the_cut(storage, part, bare, tmp_path, warnings):
    path = write_bag(tmp_path / "bag", noisy(300), storage)
    file = next(path.glob(f"*.{storage}"))
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])
    source = open_source(str(file if bare else path))
    frames = list(source)
    assert 300 * part * 0.6 < len(frames) <= 300 * part + 1
    assert levels(frames) == [i % 256 for i in range(len(frames))]
    assert [frame.media_ns for frame in frames] == [i * 100_000_000 for i in range(len(frames))]
    assert len(list(source)) == len(frames)
    assert any("cut short" in said for said in warnings()) and len(warnings()) <= 2


def test_a_recording_without_metadata_plays(tmp_path, warnings):
    """The recorder writes metadata.yaml last; one that was killed leaves storage files only."""
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(3)])
    (path / "metadata.yaml").unlink()
    file = next(path.glob("*.mcap"))
    file.rename(path / "bag_0.mcap")
    shutil.copy(path / "bag_0.mcap", path / "bag_10.mcap")
    shutil.copy(path / "bag_0.mcap", path / "bag_2.mcap")
    assert levels(open_source(str(path))) == [0, 1, 2] * 3
    assert len(warnings()) == 1


def test_rows_still_in_the_write_ahead_log_of_a_killed_recorder_play(tmp_path):
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(3)], "db3")
    file = next(path.glob("*.db3"))
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA wal_autocheckpoint=0")
    database.execute(
        "INSERT INTO messages (topic_id, timestamp, data) SELECT topic_id, 9, data FROM messages"
    )
    database.commit()
    for kept in path.glob("*.db3*"):
        shutil.copy(kept, tmp_path / kept.name)
    database.close()
    assert len(list(tmp_path.glob("*-wal"))) == 1
    assert len(levels(open_source(str(tmp_path / file.name)))) == 6


@pytest.mark.parametrize("name", ["a.mcap", "a.db3"])
@pytest.mark.parametrize("data", [b"", b"text", b"\x89MCAP0\r\n", b"SQLite format 3\0", b"\x89MCAP0\r\n" * 9])
def test_a_file_that_is_no_bag_is_one_clear_error(name, data, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=name):
        open_source(str(tmp_path / name))


def test_closing_in_the_middle_of_a_pass_is_safe_and_it_can_be_played_again(tmp_path):
    for storage in STORAGES:
        source = open_source(str(write_bag(tmp_path / storage, noisy(20), storage)))
        frames = iter(source)
        next(frames)
        source.close()
        source.close()
        assert len(list(source)) == 20
        source.close()
