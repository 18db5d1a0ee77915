# SPDX-License-Identifier: Apache-2.0
"""A database that ends inside a page: SQLite reads zeros for the rest, which are nobody's pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.bag import BagSource

TYPES = get_typestore(Stores.LATEST)
HEADER = TYPES.types["std_msgs/msg/Header"](TYPES.types["builtin_interfaces/msg/Time"](0, 0), "")
RAW = "sensor_msgs/msg/Image"
PAGE = 4096


def write_bag(folder: Path, pictures: list[np.ndarray]) -> bytes:
    with Writer(folder / "bag", version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        connection = writer.add_connection("/camera", RAW, typestore=TYPES)
        for number, pixels in enumerate(pictures):
            height, width, _ = pixels.shape
            message = TYPES.types[RAW](HEADER, height, width, "rgb8", 0, width * 3, pixels.ravel())
            writer.write(connection, number * 33_000_000, TYPES.serialize_cdr(message, RAW))
    return next((folder / "bag").glob("*.db3")).read_bytes()


def numbers_of_frames(path: Path, pictures: list[np.ndarray]) -> list[int]:
    """Which of ``pictures`` are played; -1 is none of them."""
    try:
        played = [frame.pixels for frame in BagSource(path)]
    except SourceError:
        return []
    return [next((i for i, own in enumerate(pictures) if np.array_equal(own, got)), -1) for got in played]


@pytest.mark.parametrize(("height", "width"), [(4, 6), (48, 64)], ids=["many_a_page", "many_pages"])
def test_a_cut_inside_a_page_gives_whole_pictures_only(tmp_path, height, width):
    random = np.random.default_rng(1)
    pictures = [random.integers(1, 256, (height, width, 3), dtype=np.uint8) for _ in range(12)]
    data = write_bag(tmp_path, pictures)
    cut_bag, most = tmp_path / "cut.db3", 0
    for page in range(3, len(data) // PAGE):
        for inside in (1, 40, 1000, 4000):
            cut_bag.write_bytes(data[: page * PAGE + inside])
            played = numbers_of_frames(cut_bag, pictures)
            assert -1 not in played and played == sorted(played), (page, inside, played)
            most = max(most, len(played))
    assert most > 1


def test_pictures_that_end_in_black_are_played_from_a_cut_database(tmp_path):
    """At most the last one is in doubt, wherever the cut lies."""
    pictures = [np.full((48, 64, 3), level, np.uint8) for level in range(20, 32)]
    for pixels in pictures:
        pixels[20:] = 0
    data = write_bag(tmp_path, pictures)
    cut_bag = tmp_path / "cut.db3"
    for page in range(14, len(data) // PAGE, 2):
        cut_bag.write_bytes(data[: page * PAGE])
        whole = numbers_of_frames(cut_bag, pictures)
        for inside in (2, 100, 4000):
            cut_bag.write_bytes(data[: page * PAGE + inside])
            played = numbers_of_frames(cut_bag, pictures)
            assert whole[:-1] == played[: len(whole) - 1] and -1 not in played, (page, inside, whole, played)
