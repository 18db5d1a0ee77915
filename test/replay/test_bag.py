# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import shutil
import sqlite3
from pathlib import Path

import av
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.writer import Writer as McapWriter
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
    channels = {"rgb8": 3, "bgr8": 3, "mono8": 1, "mono16": 2, "16UC1": 2, "32FC1": 4}[encoding]
    step = step or width * channels
    data = np.full(height * step, level, np.uint8)
    return TYPES.types["sensor_msgs/msg/Image"](HEADER, height, width, encoding, 0, step, data)


def jpeg(level: int, format: str = "jpeg"):
    file = io.BytesIO()
    Image.new("RGB", (16, 8), (level, level, level)).save(file, "JPEG", quality=95)
    data = np.frombuffer(file.getvalue(), np.uint8)
    return TYPES.types["sensor_msgs/msg/CompressedImage"](HEADER, format, data)


def text(value: int):
    return TYPES.types["std_msgs/msg/String"](str(value))


def write_bag(
    path: Path,
    messages,
    storage: str = "mcap",
    compression: CompressionMode | None = None,
    little_endian: bool = True,
    behind: bytes = b"",
) -> Path:
    """``messages``: ``(topic, time in ms, message)``; ``behind``: bytes behind each of them."""
    writer = Writer(path, version=9, storage_plugin=STORAGES[storage])
    if compression:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for topic, time_ms, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=TYPES)
            data = bytes(TYPES.serialize_cdr(message, kind, little_endian=little_endian)) + behind
            writer.write(connections[topic], time_ms * 1_000_000, data)
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


# ------------------------------------------------------------------------------- which topic is the camera

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


# ----------------------------------------------------------------------------------------- compressed bags


def pack(file: Path) -> Path:
    packed = Path(f"{file}.zstd")
    packed.write_bytes(zstandard.compress(file.read_bytes()))
    file.unlink()
    return packed


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("how", ["folder", "no metadata", "bare", "other name"])
def test_a_packed_storage_file_plays_and_leaves_nothing_behind(how, storage, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(4)], storage)
    packed = pack(next(path.glob(f"*.{storage}")))
    if how == "no metadata":
        (path / "metadata.yaml").unlink()
    if how == "other name":
        packed = packed.rename(tmp_path / "recording")
    source = open_source(str(packed if how in ("bare", "other name") else path))
    assert levels(source) == levels(source) == [0, 1, 2, 3]
    source.close()
    source.close()
    assert levels(source) == [0, 1, 2, 3]
    source.close()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("bare", [False, True])
def test_messages_that_were_packed_one_by_one_play_without_metadata(bare, tmp_path):
    path = write_bag(
        tmp_path / "bag", [("/cam", i, raw(i)) for i in range(4)], "db3", CompressionMode.MESSAGE
    )
    (path / "metadata.yaml").unlink()
    assert levels(open_source(str(next(path.glob("*.db3")) if bare else path))) == [0, 1, 2, 3]


def test_messages_in_an_mcap_may_be_packed_one_by_one(tmp_path):
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = McapWriter(file)
        writer.start()
        channel = writer.register_channel(
            "/cam", "cdr", writer.register_schema("sensor_msgs/msg/Image", "ros2msg", b"")
        )
        for i in range(3):
            data = zstandard.compress(bytes(TYPES.serialize_cdr(raw(i), raw(i).__msgtype__)))
            writer.add_message(channel, i, data, i)
        writer.finish()
    assert levels(open_source(str(tmp_path / "a.mcap"))) == [0, 1, 2]


def test_a_packed_file_that_was_unpacked_by_hand_plays(tmp_path, warnings):
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(4)], "db3", CompressionMode.FILE)
    packed = next(path.glob("*.db3.zstd"))
    packed.with_suffix("").write_bytes(zstandard.ZstdDecompressor().stream_reader(packed.read_bytes()).read())
    packed.unlink()
    assert levels(open_source(str(path))) == [0, 1, 2, 3]
    assert warnings() == []


@pytest.mark.parametrize("storage", STORAGES)
def test_a_packed_file_cut_short_plays_up_to_the_cut(storage, tmp_path, warnings):
    path = write_bag(tmp_path / "bag", noisy(200), storage)
    packed = pack(next(path.glob(f"*.{storage}")))
    data = packed.read_bytes()
    packed.write_bytes(data[: len(data) * 6 // 10])
    played = levels(open_source(str(packed)))
    assert 60 < len(played) <= 121 and played == list(range(len(played)))
    assert any("cut short" in said for said in warnings())


def test_a_packed_file_that_is_no_bag_is_one_clear_error(tmp_path):
    for name, data in [("a.db3.zstd", b"text"), ("b.mcap.zstd", b"")]:
        (tmp_path / name).write_bytes(zstandard.compress(data))
        with pytest.raises(SourceError, match=f"{name} is not a rosbag2 .*must be MCAP or SQLite"):
            open_source(str(tmp_path / name))
    (tmp_path / "c.db3.zstd").write_bytes(b"\x28\xb5\x2f\xfd broken")
    with pytest.raises(SourceError, match="cannot be decompressed"):
        open_source(str(tmp_path / "c.db3.zstd"))


def test_another_compression_is_named(tmp_path):
    path = write_bag(tmp_path / "bag", [("/cam", 0, raw(0))], "db3", CompressionMode.FILE)
    packed = next(path.glob("*.db3.zstd"))
    packed.rename(path / "bag.db3.lz4")
    (path / "bag.db3.lz4").write_bytes(b"\x04\x22\x4d\x18 frame")
    metadata = path / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("zstd", "lz4"))
    with pytest.raises(SourceError, match=r"bag.db3.lz4 must be .* got one packed with lz4"):
        open_source(str(path))


# ------------------------------------------------------------------------------------------------- sqlite


def database_of(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(next(path.glob("*.db3")))


def test_rows_are_played_by_time_with_an_index_of_times_and_without(tmp_path):
    path = write_bag(tmp_path / "bag", [("/cam", time, raw(time)) for time in (3, 1, 2, 0)], "db3")
    assert levels(open_source(str(path))) == [0, 1, 2, 3]
    database = database_of(path)
    database.execute("DROP INDEX timestamp_idx")
    database.commit()
    assert levels(open_source(str(path))) == [0, 1, 2, 3]


def test_rows_of_another_type_are_left_out(tmp_path, warnings):
    path = write_bag(tmp_path / "bag", [("/cam", time, raw(time)) for time in range(4)], "db3")
    database = database_of(path)
    database.execute("UPDATE messages SET data = 'text' WHERE timestamp = 1000000")
    database.execute("UPDATE messages SET timestamp = 'noon' WHERE timestamp = 2000000")
    database.commit()
    assert levels(open_source(str(path))) == [0, 3]


def test_reading_writes_nothing_into_the_folder(tmp_path):
    """A recorder that was ended well leaves a database in write-ahead mode; the disk may be read-only."""
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(3)], "db3")
    database = database_of(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.close()
    before = sorted(path.iterdir())
    source = open_source(str(path))
    frames = iter(source)
    next(frames)
    assert sorted(path.iterdir()) == before
    source.close()


def test_one_topic_name_with_two_types_plays_the_images(tmp_path):
    for storage in STORAGES:
        with Writer(tmp_path / storage, version=9, storage_plugin=STORAGES[storage]) as writer:
            for message, times in [(text(0), (0, 2)), (raw(8), (1, 3))]:
                connection = writer.add_connection("/cam", message.__msgtype__, typestore=TYPES)
                for time in times:
                    writer.write(connection, time, TYPES.serialize_cdr(message, message.__msgtype__))
        assert levels(open_source(str(tmp_path / storage))) == [8, 8]


def test_a_file_that_the_metadata_does_not_name_is_not_played(tmp_path):
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(3)])
    shutil.copy(next(path.glob("*.mcap")), path / "a_copy.mcap")
    assert levels(open_source(str(path))) == [0, 1, 2]


@pytest.mark.parametrize("metadata", ["", "- [", "rosbag2_bagfile_information: 3", "a: b", "\0"])
def test_metadata_that_cannot_be_read_costs_a_warning(metadata, tmp_path, warnings):
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(3)])
    (path / "metadata.yaml").write_text(metadata)
    assert levels(open_source(str(path))) == [0, 1, 2]
    (warning,) = warnings()
    assert (
        "metadata" in warning or "yaml" in warning.lower() or "expected" in warning or "character" in warning
    )
    assert "\n" not in warning


# ------------------------------------------------------------------------------------------------- damage


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


WHOLE: dict[str, bytes] = {}


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_damage_is_frames_or_one_clear_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    if not WHOLE:
        for storage in STORAGES:
            path = write_bag(folder / f"whole_{storage}", [("/cam", i, raw(i)) for i in range(6)], storage)
            WHOLE[storage] = next(path.glob(f"*.{storage}")).read_bytes()
            WHOLE[f"{storage}.zstd"] = zstandard.compress(WHOLE[storage])
    kind = data.draw(st.sampled_from(sorted(WHOLE)))
    content = bytearray(WHOLE[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        noise = data.draw(st.binary(min_size=1, max_size=9))
        content[at : at + len(noise)] = noise
    damaged = folder / f"damaged.{kind}"
    damaged.write_bytes(
        content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content
    )
    try:
        source = open_source(str(damaged))
        times = [frame.media_ns for frame in source]
        source.close()
        assert times == sorted(times) and len(times) <= 6
    except SourceError as error:
        assert str(damaged) in str(error) and "\n" not in str(error)


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
