# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.bag import BagSource
from vla_edge_ros.replay.image_folder import ImageFolderSource
from vla_edge_ros.replay.open_source import open_source
from vla_edge_ros.replay.synthetic import SyntheticScene
from vla_edge_ros.replay.video import VideoSource


def test_each_kind_is_recognised(tmp_path, data_dir, write_video, flat_pictures):
    bags = data_dir / "bags"
    video = write_video("a.mkv", flat_pictures(2))
    video.rename(tmp_path / "a_video_without_suffix")
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "pictures" / "1.png")
    expected = {
        "synthetic": SyntheticScene,
        str(tmp_path / "a_video_without_suffix"): VideoSource,
        str(tmp_path / "pictures"): ImageFolderSource,
        str(bags / "ait_images"): BagSource,
        str(bags / "ait_images" / "images.bag_0.db3"): BagSource,
        str(bags / "rerun_rosbag2_2025_09_10-13_03_56_0.mcap"): BagSource,
    }
    for uri, kind in expected.items():
        source = open_source(uri)
        assert isinstance(source, kind), uri
        assert source.name == uri
        assert len(next(iter(source)).pixels.shape) == 3
        source.close()


def test_names_that_look_like_a_protocol_or_a_pattern_are_plain_files(tmp_path, write_video, flat_pictures):
    for name in ("take:1.mkv", "100%03d.mkv", "a b#c?.mkv"):
        assert len(list(open_source(str(write_video(name, flat_pictures(2)))))) == 2


def test_a_home_folder_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    Image.new("RGB", (4, 4)).save(tmp_path / "1.png")
    assert len(list(open_source("~"))) == 1


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("empty.mp4", b"", "is empty"),
        ("empty.mcap", b"", "is empty"),
        ("text.txt", b"Dear robot,\nplease play this.\n" * 40, "is not a video"),
        ("text.mp4", b"Dear robot,\nplease play this.\n" * 40, "is not a video"),
        ("list.m3u8", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", "is not a video"),
        ("list.ffconcat", b"ffconcat version 1.0\nfile other.mp4\n", "is not a video"),
        ("zeros.bin", bytes(5000), "is not a video"),
        ("old.bag", b"#ROSBAG V2.0\n", "ROS 1 bag; rosbags-convert"),
    ],
)
def test_a_file_that_cannot_play_is_one_clear_error(name, data, says, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError) as error:
        open_source(str(tmp_path / name))
    assert name in str(error.value) and says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_home_of_nobody_is_one_clear_error():
    with pytest.raises(SourceError, match="source ~nobody-of-that-name/clip.mp4 does not exist"):
        open_source("~nobody-of-that-name/clip.mp4")


def test_a_missing_file_is_named_with_the_place_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=f"source clip.mp4 does not exist .*{tmp_path}/clip.mp4"):
        open_source("clip.mp4")


def test_no_source_at_all_says_what_would_be_one():
    with pytest.raises(SourceError, match="must be 'synthetic' or the path"):
        open_source("")


def test_something_that_is_neither_file_nor_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="neither a file nor a folder"):
        open_source(str(tmp_path / "pipe"))


def test_an_endless_name_is_one_clear_error():
    with pytest.raises(SourceError, match="cannot be read"):
        open_source("x" * 5000)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_one_clear_error(tmp_path):
    (tmp_path / "secret.mp4").write_bytes(b"x")
    (tmp_path / "secret.mp4").chmod(0)
    with pytest.raises(SourceError, match="Permission denied"):
        open_source(str(tmp_path / "secret.mp4"))


@pytest.mark.parametrize(("library", "name"), [("av", "clip.mp4"), ("mcap", "bag.mcap"), ("PIL", "pictures")])
def test_a_missing_library_is_named_with_the_source_that_needs_it(library, name, tmp_path):
    """In an interpreter where the library cannot be imported; the synthetic scene needs none of them."""
    path = tmp_path / name
    if path.suffix:
        path.write_bytes(b"\x89MCAP0\r\n" if path.suffix == ".mcap" else b"not empty")
    else:
        path.mkdir()
    program = (
        "import sys\n"
        f"sys.modules[{library!r}] = None\n"
        "from vla_edge_ros.errors import SourceError\n"
        "from vla_edge_ros.replay.open_source import open_source\n"
        "open_source('synthetic')\n"
        f"try: open_source({str(path)!r})\n"
        "except SourceError as error: print(error)\n"
    )
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert f"{path} needs the Python package {library}" in ran.stdout, ran.stdout + ran.stderr
