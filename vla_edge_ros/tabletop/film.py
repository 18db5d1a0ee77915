# SPDX-License-Identifier: Apache-2.0
"""A film of the episodes as they are played: small, captioned pictures, written as an animated GIF."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.tabletop.animation import INK, PAPER, write_gif
from vla_edge_ros.tabletop.camera import Camera
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.scene import CONTROL_HZ

WIDTH, CAPTION = 384, 30
CYCLES_A_PICTURE = 3  # the shortest cue is seen
END_MS = 1000  # how long an episode's last picture stays
LONGEST = 1200  # pictures: two minutes; what comes later is not filmed
_CAMERA = Camera()


class Film:
    """Not thread-safe. Pictures are drawn anew, without the sensor's noise, which does not compress."""

    def __init__(self) -> None:
        self._pictures: list[tuple[NDArray[np.uint8], int]] = []

    def __len__(self) -> int:
        return len(self._pictures)

    def see(self, episode: Episode, words: str = "") -> None:
        """Take a picture where one is due: every third cycle, and with ``words`` at the episode's end."""
        if len(self._pictures) < LONGEST and (words or episode.cycle % CYCLES_A_PICTURE == 0):
            shown_ms = END_MS if words else 1000 * CYCLES_A_PICTURE // CONTROL_HZ
            words = words or ("the arm is braked" if episode.braked else "the brake is open")
            self._pictures.append((self._picture(episode, words), shown_ms))

    def write(self, path: Path) -> None:
        """Nothing where nothing was seen. Raises ``OSError``."""
        if self._pictures:
            write_gif(path, self._pictures)

    def _picture(self, episode: Episode, words: str) -> NDArray[np.uint8]:
        drawn = _CAMERA.picture(replace(episode.state, gain=1.0))
        canvas = np.full((WIDTH // 2 + CAPTION, WIDTH, 3), PAPER, np.uint8)
        canvas[: WIDTH // 2] = cv2.resize(drawn, (WIDTH, WIDTH // 2), interpolation=cv2.INTER_LINEAR)
        text = f"{episode.plan.instruction}: {words}"
        cv2.putText(canvas, text, (6, WIDTH // 2 + 20), cv2.FONT_HERSHEY_SIMPLEX, 0.45, INK, 1, cv2.LINE_AA)
        return canvas
