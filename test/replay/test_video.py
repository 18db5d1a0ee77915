# SPDX-License-Identifier: Apache-2.0
"""Videos as PyAV writes them and as others recorded them: pixels, times, damage."""

from __future__ import annotations

import gc
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.open_source import open_source
from vla_edge_ros.replay.video import VideoSource

# Frames and size as the data folder's SOURCES.md gives them.
CLIPS = {
    "bridge_sweep_granular.mp4": (91, 240, 320, 15.0),
    "bridge_blueberry_spoon.mp4": (79, 240, 320, 15.0),
    "bridge_close_cabinet.mp4": (36, 240, 320, 15.0),
    "bridge_2x_beans_act.mp4": (162, 240, 320, 15.0),
    "bridge_2x_drawer_fail.mp4": (159, 240, 320, 15.0),
    "intel_bottle_detection.mp4": (1189, 360, 640, 29.83),
    "intel_car_detection.mp4": (377, 432, 768, 12.5),
    "udacity_solidWhiteRight.mp4": (221, 540, 960, 25.0),
}


def levels(path: Path) -> list[float]:
    return [float(frame.pixels.mean()) for frame in VideoSource(path)]


@pytest.mark.parametrize("name", CLIPS)
def test_every_clip_plays_whole_with_its_own_timing_and_no_warning(name, data_dir, warnings):
    count, height, width, rate = CLIPS[name]
    times = []
    for frame in VideoSource(data_dir / "clips" / name):
        assert frame.pixels.shape == (height, width, 3) and frame.pixels.dtype == np.uint8
        times.append(frame.media_ns)
    assert len(times) == count
    assert times[0] == 0 and all(a < b for a, b in zip(times, times[1:], strict=False))
    assert (count - 1) / (times[-1] / 1e9) == pytest.approx(rate, rel=0.01)
    assert warnings() == []


def rgb_by_the_book(frame: av.VideoFrame) -> np.ndarray:
    """BT.601, limited range, from the decoded planes: an oracle that shares no colour code with FFmpeg."""
    y, u, v = (
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width].astype(float)
        for plane in frame.planes
    )
    u, v = (np.repeat(np.repeat(c, 2, axis=0), 2, axis=1)[: y.shape[0], : y.shape[1]] - 128 for c in (u, v))
    y = (y - 16) * 255 / 219
    u, v = u * 255 / 224, v * 255 / 224
    return np.clip(np.stack([y + 1.402 * v, y - 0.344136 * u - 0.714136 * v, y + 1.772 * u], -1), 0, 255)


@pytest.mark.parametrize("name", CLIPS)
def test_pixels_match_an_independent_colour_conversion(name, data_dir):
    path = data_dir / "clips" / name
    with av.open(str(path)) as container:
        frames = zip(VideoSource(path), container.decode(video=0), strict=True)
        for index, (ours, frame) in enumerate(frames):
            if index % 100 == 0:
                difference = np.abs(ours.pixels - rgb_by_the_book(frame))
                assert difference.max() <= 3  # FFmpeg's tables round each term by itself


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt"),
    [
        ("h264.mp4", "libx264", "yuv420p"),
        ("h264_444.mp4", "libx264", "yuv444p"),
        ("h264_422_10.mkv", "libx264", "yuv422p10le"),
        ("h264_full_range.mp4", "libx264", "yuvj420p"),
        ("av1.mp4", "libsvtav1", "yuv420p"),
        ("av1_10.webm", "libsvtav1", "yuv420p10le"),
        ("vp9.webm", "libvpx-vp9", "yuv420p"),
        ("hevc.mp4", "libx265", "yuv420p"),
        ("mjpeg.avi", "mjpeg", "yuvj422p"),
        ("ffv1_bgr0.mkv", "ffv1", "bgr0"),
        ("ffv1_grey.mkv", "ffv1", "gray"),
        ("h264_rgb.mkv", "libx264rgb", "rgb24"),
        ("png_16.mov", "png", "rgb48be"),
    ],
)
def test_codec_and_pixel_format_become_rgb(name, codec, pix_fmt, write_video, flat_pictures):
    pictures = flat_pictures(6)
    if pix_fmt != "gray":
        for picture in pictures:
            picture[:, :, 2] //= 2  # colour, so that swapped channels show
    path = write_video(name, pictures, codec, pix_fmt)
    played = [frame.pixels for frame in open_source(str(path))]
    assert len(played) == len(pictures)
    for ours, truth in zip(played, pictures, strict=True):
        assert ours.shape == truth.shape
        assert np.abs(ours.mean((0, 1)) - truth.mean((0, 1))).max() <= 5


def test_bt709_tag_is_followed(tmp_path):
    """The same YUV bytes are a different colour under BT.709; HD cameras tag it."""
    path = tmp_path / "hd.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv444p"
        stream.codec_context.colorspace = 1
        frame = av.VideoFrame(64, 64, "yuv444p")
        frame.colorspace = 1
        for plane, value in zip(frame.planes, (100, 90, 200), strict=True):
            plane.update(bytes([value]) * plane.buffer_size)
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    y, u, v = (100 - 16) * 255 / 219, (90 - 128) * 255 / 224, (200 - 128) * 255 / 224
    expected = [y + 1.5748 * v, y - 0.1873 * u - 0.4681 * v, y + 1.8556 * u]
    assert next(iter(VideoSource(path))).pixels[0, 0] == pytest.approx(expected, abs=2)


def test_variable_frame_rate_keeps_each_frames_time(write_video, flat_pictures):
    pts_ms = [0, 10, 15, 500, 501, 900]
    path = write_video("vfr.mkv", flat_pictures(6), pts_ms=pts_ms)
    assert [frame.media_ns for frame in VideoSource(path)] == [ms * 1_000_000 for ms in pts_ms]


def test_media_time_begins_at_zero_where_the_file_does_not(write_video, flat_pictures):
    path = write_video("late.mkv", flat_pictures(3), pts_ms=[5000, 5040, 5080])
    assert [frame.media_ns for frame in VideoSource(path)] == [0, 40_000_000, 80_000_000]


def test_frames_come_in_display_order_with_b_frames(write_video, flat_pictures):
    pictures = flat_pictures(24)
    path = write_video("b.mp4", pictures, options={"bf": "3", "x264-params": "b-adapt=0"})
    with av.open(str(path)) as container:
        assert any(frame.pict_type == av.video.frame.PictureType.B for frame in container.decode(video=0))
    assert levels(path) == pytest.approx([float(p.mean()) for p in pictures], abs=3)


def test_a_second_pass_equals_the_first(write_video, flat_pictures):
    source = VideoSource(write_video("twice.mp4", flat_pictures(5)))
    first, second = ([frame.pixels.tobytes() for frame in source] for _ in range(2))
    assert first == second and len(first) == 5


def test_a_pass_left_in_the_middle_does_not_disturb_the_next(write_video, flat_pictures):
    source = VideoSource(write_video("left.mp4", flat_pictures(8)))
    half = iter(source)
    next(half), next(half)
    assert len(list(source)) == 8
    source.close()
    source.close()


@pytest.mark.parametrize("name", ["cut.mkv", "cut.mp4"])
def test_a_file_cut_short_plays_up_to_the_cut_with_one_warning(name, write_video, warnings):
    noise = np.random.default_rng(0)
    pictures = [noise.integers(0, 255, (64, 64, 3), np.uint8) for _ in range(50)]
    # Faststart puts an mp4's index first, so that what is left of the file can be played.
    options = {"movflags": "faststart"} if "mp4" in name else None
    whole = write_video(name, pictures, container_options=options)
    full = [frame.pixels.tobytes() for frame in VideoSource(whole)]
    data = whole.read_bytes()
    whole.write_bytes(data[: len(data) * 6 // 10])
    source = open_source(str(whole))
    for _ in range(2):
        played = [frame.pixels.tobytes() for frame in source]
        assert 15 < len(played) < 40
        assert played == full[: len(played)]
    assert len(warnings()) == 1
    assert name in warnings()[0] and "cut short" in warnings()[0]


def test_an_mp4_without_its_index_is_one_clear_error(write_video, flat_pictures):
    path = write_video("no_index.mp4", flat_pictures(10))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match=r"no_index\.mp4 .*cut short before its index"):
        open_source(str(path))


def test_a_damaged_stretch_in_the_middle_is_left_out_and_the_rest_plays(write_video, flat_pictures, warnings):
    path = write_video("hole.mov", flat_pictures(20), codec="png", pix_fmt="rgb24")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 40] = b"\xa5" * 40
    path.write_bytes(data)
    played = levels(path)
    assert len(played) == 19
    assert played[-1] == pytest.approx(float(flat_pictures(20)[-1].mean()), abs=2)
    assert len(warnings()) == 1


def test_sound_longer_than_the_picture_is_no_cut(data_dir, warnings):
    path = data_dir / "clips" / "bridge_2x_beans_act.mp4"
    with av.open(str(path)) as container:
        assert container.duration / 1e6 > 20  # twice as long as the picture
    assert sum(1 for _ in VideoSource(path)) == 162
    assert warnings() == []


def test_a_file_with_sound_only_is_one_clear_error(tmp_path):
    path = tmp_path / "sound.mka"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(SourceError, match=r"sound\.mka has no video stream"):
        open_source(str(path))


def test_float_samples_are_refused_by_name(tmp_path):
    path = tmp_path / "map.pfm"
    path.write_bytes(cv2.imencode(".pfm", np.full((8, 8, 3), 3.5, np.float32))[1].tobytes())
    with pytest.raises(SourceError, match=r"map\.pfm must have 8 or 16-bit samples, got gbrpf32"):
        VideoSource(path).__iter__().__next__()


def test_two_passes_at_once_do_not_disturb_each_other(write_video, flat_pictures):
    source = VideoSource(write_video("both.mp4", flat_pictures(6)))
    for one, other in zip(source, source, strict=True):
        assert np.array_equal(one.pixels, other.pixels)
        source.close()


def test_a_pass_that_is_dropped_closes_its_file(write_video, flat_pictures):
    path = write_video("dropped.mp4", flat_pictures(6))
    frames = iter(VideoSource(path))
    next(frames)
    assert open_files(path) == 1
    del frames
    assert open_files(path) == 0


def open_files(path: Path) -> int:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists()]
    return sum(link.resolve() == path.resolve() for link in links)


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt"),
    [("clip.avi", "mjpeg", "yuvj420p"), ("clip.gif", "gif", "rgb8"), ("clip.ts", "libx264", "yuv420p")],
)
def test_the_packet_in_which_a_file_ends_is_left_out(write_video, tmp_path, name, codec, pix_fmt):
    """A decoder makes up what it lacks of a picture; what is played is in the whole file."""
    random = np.random.default_rng(0)
    pictures = [random.integers(0, 256, (48, 64, 3), dtype=np.uint8) for _ in range(6)]
    data = write_video(name, pictures, codec, pix_fmt).read_bytes()
    whole = [frame.pixels for frame in VideoSource(tmp_path / name)]
    most = 0
    for size in range(len(data) // 3, len(data) - 200, len(data) // 40):
        (tmp_path / f"cut_{name}").write_bytes(data[:size])
        try:
            played = [frame.pixels for frame in VideoSource(tmp_path / f"cut_{name}")]
        except SourceError:
            continue
        assert all(any(np.array_equal(got, own) for own in whole) for got in played), size
        most = max(most, len(played))
    assert most >= 3


def test_a_title_in_another_character_set_is_no_obstacle(write_video, flat_pictures, tmp_path):
    path = write_video("clip.mkv", flat_pictures(4), title="Kuche")
    path.write_bytes(path.read_bytes().replace(b"Kuche", b"K\xfcche"))
    assert len(levels(path)) == 4


def test_frames_are_let_go_without_a_collection_of_cycles(write_video, flat_pictures):
    """Each frame that is kept holds a decoder's buffer, and the threads that converted its colours."""
    path = write_video("clip.mp4", flat_pictures(40))
    gc.collect()
    gc.disable()
    try:
        for _ in VideoSource(path):
            pass
        kept = sum(isinstance(thing, av.VideoFrame) for thing in gc.get_objects())
    finally:
        gc.enable()
    assert kept <= 8
