# SPDX-License-Identifier: Apache-2.0
"""Finding and ordering the files of a recording; playing them is tested in test_bag.py."""

from __future__ import annotations

import pytest

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.bag_files import open_storages, storage_files
from vla_edge_ros.replay.base import WarnOnce


def test_split_files_come_in_recording_order_and_others_are_not_taken(tmp_path):
    for name in ("b_10.mcap", "b_9.mcap", "b_0.db3", "b_0.db3-wal", "metadata.yaml", "notes.txt"):
        (tmp_path / name).touch()
    assert [file.name for file in storage_files(tmp_path)] == ["b_0.db3", "b_9.mcap", "b_10.mcap"]


def test_a_bare_file_is_its_own_recording(tmp_path):
    (tmp_path / "x.mcap").touch()
    assert storage_files(tmp_path / "x.mcap") == [tmp_path / "x.mcap"]


def test_what_was_unpacked_by_hand_comes_before_what_is_packed(tmp_path):
    for name in ("b_0.db3.zstd", "b_0.db3", "b_1.mcap.zstd"):
        (tmp_path / name).touch()
    assert [file.name for file in storage_files(tmp_path)] == ["b_0.db3", "b_1.mcap.zstd"]


def test_metadata_without_storage_files_is_one_clear_error(tmp_path):
    (tmp_path / "metadata.yaml").write_text("rosbag2_bagfile_information: {version: 9}")
    with pytest.raises(SourceError, match=f"{tmp_path} is not a rosbag2 that can be read: .*metadata key"):
        open_storages(tmp_path, WarnOnce("x"))


def test_every_unreadable_file_is_named_once(tmp_path, warnings):
    for name in ("a_0.mcap", "a_1.mcap"):
        (tmp_path / name).write_bytes(b"nothing")
    warn = WarnOnce("bag")
    for _ in range(2):
        with pytest.raises(SourceError):
            open_storages(tmp_path, warn)
    assert [text.split()[1] for text in warnings()] == ["a_0.mcap", "a_1.mcap"]
