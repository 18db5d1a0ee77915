# SPDX-License-Identifier: Apache-2.0
"""Bags whose storage file or whose messages are packed."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard
from made_bags import STORAGES, TYPES, levels, noisy, raw, write_bag
from mcap.writer import Writer as McapWriter
from rosbags.rosbag2 import CompressionMode

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.open_source import open_source


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
