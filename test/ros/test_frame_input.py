# SPDX-License-Identifier: Apache-2.0
"""What the image callback does with a message: one write, or one counted refusal."""

import cv2
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="image messages need rclpy's type support")

from sensor_msgs.msg import CompressedImage, Image  # noqa: E402

from vla_edge_ros.config import FrameConfig  # noqa: E402
from vla_edge_ros.ros.frame_input import NO_INFO, WARN_EVERY_S, FrameInput  # noqa: E402
from vla_edge_ros.ros.stamps import StampRules  # noqa: E402

pytestmark = pytest.mark.ros

NOW_NS = 1_700_000_000_000_000_000


class Slot:
    def __init__(self):
        self.frames = []

    def write(self, pixels, stamp_ns) -> bool:
        self.frames.append((pixels.copy(), stamp_ns))
        return len(self.frames) > 1


class Bench:
    """A frame input with a slot, a clock and a log that the test can look at."""

    def __init__(self):
        self.slot, self.warnings, self.now_s = Slot(), [], 100.0
        self.input = FrameInput(
            self.slot,
            FrameConfig(width=32, height=16),
            StampRules(50.0),
            lambda: NOW_NS,
            self.warnings.append,
            lambda: self.now_s,
        )

    def receive(self, stamp_ns: int = NOW_NS, **fields) -> None:
        rows = np.arange(32 * 64 * 3, dtype=np.uint8)
        content = {"height": 32, "width": 64, "encoding": "rgb8", "step": 192, "data": rows.tobytes()}
        message = Image(**{**content, **fields})
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        self.input.receive(message, NO_INFO)


def test_a_frame_is_resized_and_written_with_its_stamp():
    bench = Bench()
    bench.receive(NOW_NS - 7_000_000)
    pixels, stamp_ns = bench.slot.frames[0]
    assert pixels.shape == (16, 32, 3) and pixels.dtype == np.uint8
    assert stamp_ns == NOW_NS - 7_000_000
    assert bench.input.age_ms == pytest.approx(7.0)
    assert (bench.input.written, bench.input.overwritten) == (1, 0)
    assert (bench.input.size, bench.input.encoding) == ((64, 32), "rgb8")


def test_geometry_and_encoding_may_change_from_message_to_message():
    """Fault A11."""
    bench = Bench()
    bench.receive()
    bench.receive(NOW_NS + 1, height=4, width=5, step=16, data=bytes(64))
    bench.receive(NOW_NS + 2, encoding="mono16", step=129, data=bytes(32 * 129))
    bench.receive(NOW_NS + 3, encoding="bgra8", step=256, data=bytes(32 * 256))
    bench.receive(NOW_NS + 4, step=191)
    assert [pixels.shape for pixels, _ in bench.slot.frames] == [(16, 32, 3)] * 4
    assert bench.input.refused == {"step": 1}
    assert (bench.input.size, bench.input.encoding) == ((64, 32), "rgb8")


def test_a_frame_of_the_models_size_is_copied_by_the_slot_alone(monkeypatch):
    """Fault A8: what the slot is given to copy is the message's own memory."""
    bench, given = Bench(), []
    monkeypatch.setattr(bench.slot, "write", lambda pixels, stamp_ns: bool(given.append(pixels)))
    message = Image(height=16, width=32, encoding="rgb8", step=96, data=bytes(16 * 96))
    bench.input.receive(message, NO_INFO)
    assert np.shares_memory(given[0], np.frombuffer(message.data, np.uint8))


def test_overwritten_frames_are_counted():
    bench = Bench()
    for i in range(3):
        bench.receive(NOW_NS + i)
    assert (bench.input.written, bench.input.overwritten) == (3, 2)


def test_a_refusal_writes_nothing_and_is_counted_by_reason():
    bench = Bench()
    bench.receive(encoding="32FC1")
    bench.receive(step=1)
    bench.receive(step=1)
    assert not bench.slot.frames
    assert bench.input.refused == {"encoding": 1, "step": 2}


def test_a_refused_picture_does_not_move_the_order_of_stamps():
    bench = Bench()
    bench.receive(NOW_NS + 40_000_000, data=b"")
    bench.receive(NOW_NS)
    assert len(bench.slot.frames) == 1


def test_an_out_of_order_frame_is_refused():
    bench = Bench()
    bench.receive(NOW_NS)
    bench.receive(NOW_NS - 16_000_000)
    assert bench.input.refused == {"order": 1} and len(bench.slot.frames) == 1


def test_each_reason_is_warned_about_once_in_a_while():
    bench = Bench()
    for _ in range(10):
        bench.receive(encoding="32FC1")
        bench.receive(step=1)
    assert len(bench.warnings) == 2
    bench.now_s += WARN_EVERY_S
    bench.receive(encoding="32FC1")
    assert len(bench.warnings) == 3 and "11 for this reason" in bench.warnings[2]


def test_silence_counts_from_the_last_written_frame():
    bench = Bench()
    bench.now_s += 3.0
    assert bench.input.seconds_without_a_frame() == pytest.approx(3.0)
    bench.receive()
    bench.now_s += 1.5
    bench.receive(step=1)  # a refused one does not end the silence
    assert bench.input.seconds_without_a_frame() == pytest.approx(1.5)


def test_a_compressed_image_is_a_frame_and_broken_ones_are_counted_by_reason():
    bench = Bench()
    picture = np.full((32, 64, 3), (10, 120, 200), np.uint8)
    jpeg = cv2.imencode(".jpg", picture[..., ::-1])[1].tobytes()
    for stamp, (data, described) in enumerate(
        [
            (jpeg, "rgb8; jpeg compressed bgr8"),
            (jpeg[:-40], "jpeg"),
            (b"", "png"),
            (jpeg, "16UC1; compressedDepth"),
        ]
    ):
        message = CompressedImage(format=described, data=data)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(NOW_NS + stamp, 10**9)
        bench.input.receive_compressed(message, NO_INFO)
    (pixels, stamp_ns) = bench.slot.frames[0]
    assert len(bench.slot.frames) == 1 and stamp_ns == NOW_NS
    assert np.abs(pixels.astype(int) - (10, 120, 200)).max() <= 2
    assert bench.input.refused == {"data": 2, "encoding": 1}
    assert bench.input.size == (64, 32)


def test_a_refused_encoding_is_the_one_that_is_told_with_the_list_of_those_that_serve():
    bench = Bench()
    bench.receive()
    bench.receive(encoding="32FC1")
    assert bench.input.encoding == "32FC1"
    assert all(name in bench.input.refusal for name in ("'32FC1'", "rgb8", "bayer_rggb16", "nv21", "8UC4"))


def test_images_that_are_refused_have_arrived():
    """What a publisher numbered and this node refuses was not lost on the way."""
    bench = Bench()
    for number in range(1, 40):
        message = Image(height=1, width=1, encoding="32FC1", step=4, data=bytes(4))
        bench.input.receive(message, {"publication_sequence_number": number})
    loss = bench.input.loss.look(bench.now_s, 1)
    assert (loss.sent, loss.lost) == (39, 0)
