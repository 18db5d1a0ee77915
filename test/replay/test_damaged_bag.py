# SPDX-License-Identifier: Apache-2.0
"""Bags that are cut, damaged, or without readable metadata: what is whole plays, with one warning."""

from __future__ import annotations

import shutil

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from made_bags import STORAGES, jpeg, levels, noisy, raw, write_bag

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.open_source import open_source


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
