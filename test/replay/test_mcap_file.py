# SPDX-License-Identifier: Apache-2.0
"""Files by the ``mcap`` package's own writer, with any part left out; its own reader is the judge."""

from __future__ import annotations

import itertools
from pathlib import Path

import mcap.reader
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.writer import CompressionType, IndexType, Writer

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.mcap_file import McapFile
from vla_edge_ros.replay.topic import RAW, Topic

CAMERA = Topic("/cam", RAW, "cdr")
OTHERS = [
    ("/json", "foxglove.Log", "jsonschema", "json"),
    ("/protobuf", "foxglove.CompressedImage", "protobuf", "protobuf"),
    ("/no_schema", "", "", "json"),
    ("/idl", "other_msgs/msg/Other", "ros2idl", "cdr"),
]


def write(path: Path, messages: int = 40, payload: int = 300, times=None, **options) -> Path:
    """``messages`` on ``/cam`` between as many on each of ``OTHERS``; their data is ``<number>``, padded."""
    with path.open("wb") as file:
        writer = Writer(file, **{"chunk_size": 4000, **options})
        writer.start(profile="", library="test")
        channels = {}
        for topic, kind, schema_encoding, encoding in [*OTHERS, ("/cam", RAW, "ros2msg", "cdr")]:
            schema = writer.register_schema(kind, schema_encoding, b"") if kind else 0
            channels[topic] = writer.register_channel(topic, encoding, schema)
        for number in range(messages):
            time_ns = times[number] if times else number * 10
            for topic, channel in channels.items():
                data = b"<%d>" % number if topic == "/cam" else b"%d" % number
                data = data.ljust(payload if topic == "/cam" else 8)
                writer.add_message(channel, time_ns, data, time_ns)
        writer.add_metadata("rosbag2", {"any": "thing"})
        writer.finish()
    return path


def number_in(data: bytes) -> int:
    return int(data.strip(b"<> "))


def numbers(file: McapFile) -> list[int]:
    return [number_in(data) for _, data in file.messages(CAMERA)]


INDEXES = [
    IndexType.ALL,
    IndexType.NONE,
    IndexType.CHUNK,
    IndexType.MESSAGE,
    IndexType.CHUNK | IndexType.MESSAGE,
]
PARTS = ["repeat_channels", "repeat_schemas", "use_chunking", "use_statistics", "use_summary_offsets"]


@pytest.mark.parametrize("index", INDEXES, ids=str)
@pytest.mark.parametrize("compression", CompressionType, ids=str)
def test_every_optional_part_may_be_left_out(index, compression, tmp_path):
    for chosen in itertools.product([True, False], repeat=len(PARTS)):
        options = dict(zip(PARTS, chosen, strict=True))
        path = write(tmp_path / "a.mcap", compression=compression, index_types=index, **options)
        file = McapFile(path)
        assert file.damage == ""
        assert set(file.topics) == {CAMERA, *(Topic(name, kind, how) for name, kind, _, how in OTHERS)}
        assert all(file.has_messages(topic) for topic in file.topics)
        assert [(time, number_in(data)) for time, data in file.messages(CAMERA)] == [
            (10 * i, i) for i in range(40)
        ]


def test_a_topic_without_messages_has_none(tmp_path):
    file = McapFile(write(tmp_path / "a.mcap", messages=0))
    assert CAMERA in file.topics
    assert not file.has_messages(CAMERA) and numbers(file) == []


@given(times=st.permutations(range(24)), indexed=st.booleans())
@settings(max_examples=20, deadline=None)
def test_an_indexed_file_plays_by_time_and_any_other_as_written(times, indexed, tmp_path_factory):
    index = IndexType.ALL if indexed else IndexType.NONE
    path = tmp_path_factory.getbasetemp() / "order.mcap"
    write(path, 24, times=times, index_types=index, chunk_size=1200 if indexed else 1)
    with path.open("rb") as file:
        read = mcap.reader.make_reader(file).iter_messages(topics=["/cam"], log_time_order=indexed)
        truth = [message.log_time for _, _, message in read]
    assert [time for time, _ in McapFile(path).messages(CAMERA)] == truth
    assert truth == (sorted(times) if indexed else times)


@pytest.mark.parametrize("chunking", [True, False])
@pytest.mark.parametrize("part", [0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_a_file_cut_short_plays_every_whole_chunk_or_message(part, chunking, tmp_path):
    path = write(tmp_path / "a.mcap", 100, use_chunking=chunking, compression=CompressionType.NONE)
    data = path.read_bytes()
    with path.open("rb") as file:
        chunks = mcap.reader.make_reader(file).get_summary().chunk_indexes
    cut = int(len(data) * part)
    ends = [data.index(b"<%d>" % number) + 300 for number in range(100)]
    if chunking:
        chunk_ends = [chunk.chunk_start_offset + chunk.chunk_length for chunk in chunks]
        whole = max((end for end in chunk_ends if end <= cut), default=0)
    else:
        whole = cut
    path.write_bytes(data[:cut])
    file = McapFile(path)
    assert file.damage
    assert numbers(file) == [number for number, end in enumerate(ends) if end <= whole]


@given(data=st.data(), compression=st.sampled_from(list(CompressionType)))
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_gives_what_is_whole_and_only_that(data, compression, tmp_path_factory):
    """Bytes changed anywhere: messages that the checksums vouch for, or a refusal."""
    path = write(tmp_path_factory.getbasetemp() / "damaged.mcap", 20, compression=compression)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=12))
    content[at : at + len(noise)] = noise
    path.write_bytes(content)
    played = []
    try:
        for _, message in McapFile(path).messages(CAMERA):
            played.append(number_in(message))
    except SourceError:
        pass
    assert played == list(range(len(played)))


def test_a_compression_that_nobody_knows_is_named(tmp_path):
    for options in ({}, {"index_types": IndexType.NONE}):
        path = write(tmp_path / "a.mcap", **options)
        path.write_bytes(path.read_bytes().replace(b"\x04\0\0\0zstd", b"\x04\0\0\0brot"))
        with pytest.raises(SourceError, match="lz4, zstd or not at all, got 'brot'"):
            McapFile(path)


def test_a_length_that_damage_made_asks_for_no_memory(tmp_path):
    path = write(tmp_path / "a.mcap", use_chunking=False)
    data = bytearray(path.read_bytes())
    at = data.index(b"<17>".ljust(300)) - 22 - 8
    data[at : at + 8] = (2**31).to_bytes(8, "little")
    path.write_bytes(data[: len(data) - 400])
    file = McapFile(path)
    assert numbers(file) == list(range(17)) and "2147483648" in file.damage
