# SPDX-License-Identifier: Apache-2.0
"""``rosbags`` writes the messages: an oracle that shares no code with our reader."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore

from vla_edge_ros.errors import ImageError
from vla_edge_ros.replay.image_message import serialised_to_rgb
from vla_edge_ros.replay.topic import COMPRESSED, RAW

TYPES = get_typestore(Stores.LATEST)


def header(frame_id: str):
    return TYPES.types["std_msgs/msg/Header"](TYPES.types["builtin_interfaces/msg/Time"](5, 6), frame_id)


def serialised(kind: str, *fields, little_endian: bool = True) -> bytes:
    return bytes(TYPES.serialize_cdr(TYPES.types[kind](*fields), kind, little_endian=little_endian))


@given(
    frame_id=st.text(max_size=9).filter(lambda text: "\0" not in text),
    height=st.integers(1, 5),
    width=st.integers(1, 5),
    padding=st.integers(0, 3),
    encoding=st.sampled_from(["rgb8", "mono8", "bgra8", "8UC3"]),
    little_endian=st.booleans(),
    behind=st.binary(max_size=40),
)
def test_either_byte_order_any_frame_id_and_bytes_behind(
    frame_id, height, width, padding, encoding, little_endian, behind
):
    channels = {"rgb8": 3, "mono8": 1, "bgra8": 4, "8UC3": 3}[encoding]
    step = width * channels + padding
    data = np.random.default_rng(0).integers(0, 256, height * step, np.uint8)
    fields = (header(frame_id), height, width, encoding, 0, step, data)
    message = serialised(RAW, *fields, little_endian=little_endian)
    pixels, named = serialised_to_rgb(RAW, message + behind)
    rows = data.reshape(height, step)[:, : width * channels].reshape(height, width, channels)
    truth = {"rgb8": rows, "mono8": rows.repeat(3, -1)}.get(encoding, rows[..., 2::-1])
    assert np.array_equal(pixels, truth) and named == encoding


@pytest.mark.parametrize("little_endian", [True, False])
def test_a_compressed_image_of_either_byte_order(little_endian):
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    data = cv2.imencode(".png", picture)[1].reshape(-1)
    message = serialised(COMPRESSED, header("cam"), "png", data, little_endian=little_endian)
    pixels, named = serialised_to_rgb(COMPRESSED, message + b"\0\0\0\0\0\0\0\0")
    assert np.array_equal(pixels, picture[..., ::-1]) and named == "png"


def test_plain_xcdr2_is_read():
    message = serialised(RAW, header("c"), 1, 2, "mono8", 0, 2, np.array([7, 9], np.uint8))
    assert serialised_to_rgb(RAW, b"\0\x07" + message[2:])[0][0, :, 0].tolist() == [7, 9]


@given(
    cut=st.integers(0, 80),
    noise=st.binary(max_size=8),
    at=st.integers(0, 80),
    kind=st.sampled_from([RAW, COMPRESSED]),
)
def test_broken_bytes_are_a_picture_or_an_image_error(cut, noise, at, kind):
    whole = serialised(RAW, header("c"), 2, 3, "rgb8", 0, 9, np.arange(18, dtype=np.uint8))
    for broken in (whole[:cut], whole[:at] + noise + whole[at + len(noise) :], noise):
        try:
            pixels, _ = serialised_to_rgb(kind, broken)
            assert pixels.dtype == np.uint8 and pixels.shape[2] == 3
        except ImageError as error:
            assert len(str(error)) < 1000


@pytest.mark.parametrize("head", [b"", b"\0", b"\0\x02\0\0", b"\x28\xb5\x2f\xfd", b"\0\x03\0\0"])
def test_another_serialisation_is_named(head):
    with pytest.raises(ImageError, match="must begin with a CDR header, got"):
        serialised_to_rgb(RAW, head + b"1234" * bool(head[3:]))
