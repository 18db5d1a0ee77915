# SPDX-License-Identifier: Apache-2.0
"""Bags: what plays is sound, and a bag that was cut short plays just what is whole before the cut.

An input is a line of JSON, ``{"name": file name, "metadata": text of metadata.yaml or null}``, and the file.
"""

from __future__ import annotations

import functools
import io
import json
import struct
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import mcap.stream_reader
import mcap.writer
import numpy as np
import yaml
from byte_mutator import mutate
from frames import Played, play
from mcap.exceptions import McapError
from mcap.records import Channel, Message
from PIL import Image
from real_files import real_files
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from tree_mutator import mutate_tree

TYPES = get_typestore(Stores.LATEST)
HEADER = TYPES.types["std_msgs/msg/Header"](TYPES.types["builtin_interfaces/msg/Time"](7, 9), "camera")
RAW, COMPRESSED, TEXT = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage", "std_msgs/msg/String"
MESSAGES = 8
BIGGEST_REAL = 100_000  # bytes; the large bags cost a second each


def _image(number: int) -> Any:
    data = np.random.default_rng(number).integers(0, 256, 4 * 18, dtype=np.uint8)
    return TYPES.types[RAW](HEADER, 4, 6, "rgb8", 0, 18, data)


def _compressed(number: int) -> Any:
    pixels = np.random.default_rng(number).integers(0, 256, (8, 16, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG" if number % 2 else "JPEG")
    kind = "png" if number % 2 else "jpeg"
    return TYPES.types[COMPRESSED](HEADER, kind, np.frombuffer(file.getvalue(), np.uint8))


def _recording() -> list[tuple[str, str, int, bytes]]:
    """``(topic, type, time in ns, serialised message)`` in the order of time."""
    found = []
    for number in range(MESSAGES):
        for offset, (topic, kind, message) in enumerate(
            (
                ("/camera/image", RAW, _image(number)),
                ("/camera/compressed", COMPRESSED, _compressed(number)),
                ("/chatter", TEXT, TYPES.types[TEXT](f"hello {number}")),
            )
        ):
            data = bytes(TYPES.serialize_cdr(message, kind))
            found.append((topic, kind, 10**18 + number * 33_000_000 + offset * 1000, data))
    return found


def _by_rosbags(plugin: StoragePlugin) -> tuple[str, bytes, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bag"
        with Writer(path, version=9, storage_plugin=plugin) as writer:
            made: dict[str, Any] = {}
            for topic, kind, at_ns, data in _recording():
                if topic not in made:
                    made[topic] = writer.add_connection(topic, kind, typestore=TYPES)
                writer.write(made[topic], at_ns, data)
        (file,) = [file for file in path.iterdir() if file.suffix in (".db3", ".mcap")]
        return file.name, file.read_bytes(), (path / "metadata.yaml").read_text()


def _by_mcap(**options: Any) -> bytes:
    """As other recorders write: without chunks or an index, compressed, with a channel that is not ROS's."""
    file = io.BytesIO()
    writer = mcap.writer.Writer(file, **options)
    writer.start(profile="ros2", library="")
    made = {}
    for topic, kind, at_ns, data in _recording():
        if topic not in made:
            text = TYPES.generate_msgdef(kind)[0].encode()
            schema = writer.register_schema(kind, "ros2msg", text)
            made[topic] = writer.register_channel(topic, "cdr", schema)
        writer.add_message(made[topic], at_ns, data, at_ns)
    schema = writer.register_schema("note", "jsonschema", b'{"type": "object"}')
    channel = writer.register_channel("/note", "json", schema)
    writer.add_message(channel, 10**18 + 10**9, b'{"text": "done"}', 10**18 + 10**9)
    writer.finish()
    return file.getvalue()


@functools.cache
def bases() -> dict[str, tuple[bytes, str | None]]:
    """File name to contents and ``metadata.yaml``."""
    kinds, index = mcap.writer.CompressionType, mcap.writer.IndexType
    found: dict[str, tuple[bytes, str | None]] = {
        "plain.mcap": (_by_mcap(use_chunking=False), None),
        "bare.mcap": (
            _by_mcap(
                use_chunking=False,
                index_types=index.NONE,
                repeat_channels=False,
                repeat_schemas=False,
                use_statistics=False,
                use_summary_offsets=False,
            ),
            None,
        ),
        "lz4.mcap": (_by_mcap(chunk_size=600, compression=kinds.LZ4), None),
        "zstd.mcap": (_by_mcap(chunk_size=2000, compression=kinds.ZSTD), None),
    }
    for plugin in (StoragePlugin.MCAP, StoragePlugin.SQLITE3):
        name, data, metadata = _by_rosbags(plugin)
        found[name] = (data, None)
        found[f"folder_{name}"] = (data, metadata.replace(name, f"folder_{name}"))
    for path in real_files("bags", (".mcap", ".db3"), BIGGEST_REAL):
        found[path.name] = (path.read_bytes(), None)
    return found


def make(random: Random) -> bytes:
    name = random.choice(sorted(bases()))
    data, metadata = bases()[name]
    if metadata is not None and random.random() < 0.5:
        metadata = _other_metadata(metadata, random)
    elif random.random() < 0.3:
        data = data[: random.randrange(len(data))]
    else:
        data = mutate(data, random)
    return json.dumps({"name": name, "metadata": metadata}).encode() + b"\n" + data


def _other_metadata(metadata: str, random: Random) -> str:
    if random.random() < 0.3:
        return mutate(metadata.encode(), random).decode("utf-8", "replace")
    changed = mutate_tree(
        yaml.safe_load(metadata), random, (RAW, COMPRESSED, 2**63, "zstd", "file", "message")
    )
    return yaml.safe_dump(changed)


@functools.cache
def _whole(name: str, bag_topic: str = "") -> Played:
    """What the undamaged base plays."""
    data, metadata = bases()[name]
    with tempfile.TemporaryDirectory() as folder:
        return play(_written(Path(folder), name, data, metadata), bag_topic=bag_topic)


def _written(folder: Path, name: str, data: bytes, metadata: str | None) -> Path:
    (folder / name).write_bytes(data)
    if metadata is None:
        return folder / name
    (folder / "metadata.yaml").write_text(metadata, encoding="utf-8")
    return folder


def check(data: bytes, folder: Path) -> str:
    line, _, contents = data.partition(b"\n")
    try:
        head = json.loads(line)
        name, metadata = head["name"], head["metadata"]
        original, own_metadata = bases()[name]
    except (ValueError, KeyError, TypeError):
        return "no input"
    if not isinstance(metadata, str | None):
        return "no input"
    played = play(_written(folder, name, contents, metadata))
    if metadata == own_metadata and original.startswith(contents):
        _check_cut(name, contents, played)
    return "refused" if played.error else "good"


def _check_cut(name: str, contents: bytes, played: Played) -> None:
    whole = _whole(name)
    if len(contents) == len(bases()[name][0]):
        assert played.frames == whole.frames, f"{name} itself plays otherwise: {played.error}"
    if name.endswith(".db3"):
        # A page that is cut may lose its first rows and keep its last, or lose all rows of a topic.
        wholes = (whole, _whole(name, "/camera/compressed"))
        assert any(_is_some_of(each, played) for each in wholes), (
            f"{name} cut at {len(contents)}: other frames"
        )
        return
    assert played.frames == whole.frames[: len(played.frames)], (
        f"{name} cut at {len(contents)}: not its beginning"
    )
    if name.endswith(".mcap") and name in bases() and whole.frames:
        expected = min(_messages_before_the_cut(contents), len(whole.frames))
        assert len(played.frames) >= expected, (
            f"{name} cut at {len(contents)}: {len(played.frames)} frames of {expected} ({played.error})"
        )


def _is_some_of(whole: Played, played: Played) -> bool:
    """Whether the frames are some of the whole bag's, in its order and a constant time apart."""
    rest = iter(whole.frames)
    places = [next((at for at, pixels in rest if pixels == wanted), None) for _, wanted in played.frames]
    pairs = zip(played.frames, places, strict=True)
    return None not in places and len({at - place for (at, _), place in pairs if place is not None}) <= 1


def _messages_before_the_cut(contents: bytes) -> int:
    """Of the raw image topic, by the format's own library; only files made here have the topic."""
    count, channels = 0, set()
    try:
        for record in mcap.stream_reader.StreamReader(io.BytesIO(contents), skip_magic=False).records:
            if isinstance(record, Channel) and record.topic == "/camera/image":
                channels.add(record.id)
            count += isinstance(record, Message) and record.channel_id in channels
    except (McapError, EOFError, ValueError, RuntimeError, OSError, struct.error):
        pass  # what was read until then counts
    return count
