# SPDX-License-Identifier: Apache-2.0
"""One encoded picture (JPEG, PNG, ...) to RGB pixels.

Pillow, not OpenCV: OpenCV fills up a JPEG that was cut short with grey and says nothing.
"""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from vla_edge_ros.errors import ImageError


def decode_picture(data: bytes | bytearray | memoryview) -> NDArray[np.uint8]:
    """The picture in ``data`` as uint8 ``[height, width, 3]`` RGB, upright as its EXIF tag says.

    Alpha is dropped; 16-bit grey keeps full scale full (1/257). Raises ``ImageError`` with reason ``data``.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I"):  # Pillow clips 16-bit grey instead of scaling it
                grey = np.rint(np.clip(np.asarray(upright), 0, 65535) / 257).astype(np.uint8)
                return np.ascontiguousarray(np.broadcast_to(grey[..., None], (*grey.shape, 3)))
            return np.array(upright.convert("RGB"))
    except UnidentifiedImageError:
        raise ImageError("data", "not a picture in a known format") from None
    # Pillow's decoders raise any of these on broken bytes (PNG uses SyntaxError).
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ImageError("data", f"picture cannot be decoded: {error}") from None
