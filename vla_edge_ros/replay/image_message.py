# SPDX-License-Identifier: Apache-2.0
"""A serialised ``sensor_msgs/Image`` or ``CompressedImage`` to RGB pixels, without ROS.

CDR: a header of four bytes, then the fields in order, each at a multiple of its size. Bytes behind the last
field are ignored, as ROS ignores them: bags that were converted from ROS 1 have some.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.compressed_image import compressed_to_rgb
from vla_edge_ros.errors import ImageError
from vla_edge_ros.imaging import to_rgb
from vla_edge_ros.replay.topic import COMPRESSED

# The header's second byte: plain CDR or plain XCDR2 (the same for these types), each of either byte order.
_BYTE_ORDERS = {0: ">", 1: "<", 6: ">", 7: "<"}


class _CdrReader:
    def __init__(self, data: bytes):
        if len(data) < 4 or data[0] or data[1] not in _BYTE_ORDERS:
            raise ImageError(
                "data", f"message must begin with a CDR header, got {data[:4].hex() or 'nothing'}"
            )
        self._order = _BYTE_ORDERS[data[1]]
        self._data = memoryview(data)[4:]
        self._at = 0

    def uint32(self) -> int:
        self._at += -self._at % 4
        value: int = struct.unpack(f"{self._order}I", self._take(4))[0]
        return value

    def uint8(self) -> int:
        return self._take(1)[0]

    def string(self) -> str:
        return bytes(self.sequence()).rstrip(b"\0").decode(errors="replace")

    def sequence(self) -> memoryview:
        return self._take(self.uint32())

    def _take(self, size: int) -> memoryview:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            missing = size - len(taken)
            raise ImageError(
                "data", f"message ends {missing} bytes before its fields do ({len(self._data)} bytes)"
            )
        self._at += size
        return taken


def serialised_to_rgb(image_type: str, data: bytes) -> tuple[NDArray[np.uint8], str]:
    """Pixels uint8 ``[height, width, 3]``, and the encoding (of a compressed image, its format).

    ``image_type``: ``topic.RAW`` or ``topic.COMPRESSED``. Raises ``ImageError``, also of a kind that
    ``to_rgb`` or ``compressed_to_rgb`` raises.
    """
    cdr = _CdrReader(data)
    cdr.uint32(), cdr.uint32(), cdr.string()  # stamp, frame_id
    if image_type == COMPRESSED:
        format = cdr.string()
        return compressed_to_rgb(format, cdr.sequence()), format
    height, width, encoding = cdr.uint32(), cdr.uint32(), cdr.string()
    is_bigendian, step = bool(cdr.uint8()), cdr.uint32()
    return to_rgb(height, width, encoding, is_bigendian, step, cdr.sequence()), encoding
