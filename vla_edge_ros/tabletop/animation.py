# SPDX-License-Identifier: Apache-2.0
"""One recall episode under two eviction policies side by side, as an animated GIF.

Above, what the camera sees; below, every frame that the cache holds, oldest first, those that show the cue
framed. What moves the arm is the policy, in lockstep with an engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vla_edge_ros.tabletop.camera import Camera
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.lockstep import Conditions, Stream, play
from vla_edge_ros.tabletop.scene import CONTROL_HZ
from vla_edge_ros.tabletop.tasks import EpisodePlan

PANEL = 392  # pixels of width
MARGIN = 8
PICTURE = (PANEL, PANEL // 2)
THUMBNAILS_A_ROW = 7
THUMBNAIL = (PANEL // THUMBNAILS_A_ROW, PANEL // THUMBNAILS_A_ROW // 2)
CAPTION = 26

PAPER, INK, FAINT = (255, 255, 255), (30, 30, 30), (225, 225, 225)
CUE, SUCCESS, FAILURE = (240, 150, 0), (20, 140, 50), (200, 40, 40)

# Cycles between two shown ones: the wait is long and dull.
SHOWN_EVERY = {"watching": 4, "waiting": 24, "acting": 5}
FRAME_MS = 140
LAST_FRAME_MS = 2500
_CAMERA = Camera()


@dataclass(frozen=True, slots=True)
class Moment:
    """What is shown of one cycle: the picture, and which cycles' frames were kept."""

    cycle: int
    picture: NDArray[np.uint8]
    kept: tuple[int, ...]
    outcome: str = ""


class _Watched:
    """A stream that notes what it saw and kept."""

    def __init__(self, stream: Stream, episode: Episode):
        self._stream, self._episode = stream, episode
        self.moments: list[Moment] = []

    def act(self, picture: NDArray[np.uint8], cycle: int, decode: bool) -> NDArray[np.float64] | None:
        answer = self._stream.act(picture, cycle, decode)
        self.moments.append(Moment(cycle, _clean(self._episode), tuple(self._stream.kept().tolist())))
        return answer

    def kept(self) -> NDArray[np.int64]:
        return self._stream.kept()


def record(stream: Stream, plan: EpisodePlan, physics: bool = True) -> list[Moment]:
    """Play ``plan`` with ``stream`` to its end; the last moment knows the outcome."""
    episode = Episode(plan, physics=physics)
    stream.begin(plan, plan.instruction)
    watched = _Watched(stream, episode)
    result = play(episode, watched, Conditions(), np.random.default_rng(0))
    last = watched.moments[-1]
    outcome = "touched the right one" if result.succeeded else "touched none"
    if episode.touched is not None and not result.succeeded:
        outcome = "touched a wrong one"
    end = Moment(last.cycle + 1, _clean(episode), last.kept, outcome)
    return [*watched.moments, end]


def _clean(episode: Episode) -> NDArray[np.uint8]:
    """The picture without the sensor's noise and the drift of the light, which would treble the file."""
    return _CAMERA.picture(replace(episode.state, gain=1.0))


def phase(plan: EpisodePlan, cycle: int) -> str:
    """``watching`` until the last cue is over, then ``waiting`` for the brake to open, then ``acting``."""
    if cycle < plan.go:
        return "watching" if cycle <= plan.cues[-1].end else "waiting"
    return "acting"


def _text(
    canvas: NDArray[Any], text: str, at: tuple[int, int], rgb: tuple[int, int, int], size: float
) -> None:
    cv2.putText(canvas, text, at, cv2.FONT_HERSHEY_SIMPLEX, size, rgb, 1, cv2.LINE_AA)


def _panel(plan: EpisodePlan, title: str, moments: list[Moment], cycle: int, room: int) -> NDArray[np.uint8]:
    """``[height, PANEL, 3]`` of one policy at ``cycle``, or at its end if that came before."""
    moment = moments[min(cycle, len(moments) - 1)]
    rows = -(-room // THUMBNAILS_A_ROW)
    strip = CAPTION + PICTURE[1] + CAPTION
    canvas = np.full((strip + rows * THUMBNAIL[1] + 4, PANEL, 3), PAPER, np.uint8)
    _text(canvas, title, (0, 18), INK, 0.55)
    if moment.outcome:
        rgb = SUCCESS if "right" in moment.outcome else FAILURE
        width = cv2.getTextSize(moment.outcome, cv2.FONT_HERSHEY_SIMPLEX, 0.5, 1)[0][0]
        _text(canvas, moment.outcome, (PANEL - width, 18), rgb, 0.5)
    canvas[CAPTION : CAPTION + PICTURE[1]] = cv2.resize(
        moment.picture, PICTURE, interpolation=cv2.INTER_LINEAR
    )
    has_cue = any(plan.cue_cycles(kept) for kept in moment.kept)
    seen = cycle >= plan.cues[-1].start
    words = ("memory: the cue is kept", CUE) if has_cue else ("memory: the cue is forgotten", FAILURE)
    words = words if seen else ("memory", INK)
    _text(canvas, words[0], (0, CAPTION + PICTURE[1] + 18), words[1], 0.45)
    for place in range(room):
        x = place % THUMBNAILS_A_ROW * THUMBNAIL[0]
        y = strip + place // THUMBNAILS_A_ROW * THUMBNAIL[1]
        box = canvas[y : y + THUMBNAIL[1] - 1, x : x + THUMBNAIL[0] - 1]
        if place >= len(moment.kept):
            box[:] = FAINT
            continue
        kept = moment.kept[place]
        size = (box.shape[1], box.shape[0])
        box[:] = cv2.resize(moments[kept].picture, size, interpolation=cv2.INTER_AREA)
        if plan.lit(kept) is not None:
            cv2.rectangle(canvas, (x - 1, y - 1), (x + size[0], y + size[1]), CUE, 2)
    return canvas


def frames_of(
    plan: EpisodePlan, recorded: dict[str, list[Moment]], room: int
) -> list[tuple[NDArray[np.uint8], int]]:
    """Pictures of the whole animation with how long each is shown, ms; ``recorded``: moments by title."""
    last = max(len(moments) for moments in recorded.values()) - 1
    shown = [cycle for cycle in range(last) if cycle % SHOWN_EVERY[phase(plan, cycle)] == 0] + [last]
    captions = {
        "watching": f'"{plan.instruction}": one of them lights up',
        "waiting": "the arm is braked",
        "acting": "the brake is open",
    }
    result = []
    for cycle in shown:
        panels = [_panel(plan, title, moments, cycle, room) for title, moments in recorded.items()]
        height = panels[0].shape[0]
        canvas = np.full((height + CAPTION + 2 * MARGIN, 2 * PANEL + 3 * MARGIN, 3), PAPER, np.uint8)
        caption = f"{cycle / CONTROL_HZ:4.1f} s  {captions[phase(plan, cycle)]}"
        _text(canvas, caption, (MARGIN, MARGIN + 16), INK, 0.55)
        for number, panel in enumerate(panels):
            x = MARGIN + number * (PANEL + MARGIN)
            canvas[CAPTION + MARGIN : CAPTION + MARGIN + height, x : x + PANEL] = panel
        result.append((canvas, LAST_FRAME_MS if cycle == last else FRAME_MS))
    return result


def write_gif(path: Path, frames: list[tuple[NDArray[np.uint8], int]]) -> None:
    """One palette for all frames, and no dithering: only what moves is stored again."""
    sample = Image.fromarray(np.concatenate([picture for picture, _ in frames[:: max(1, len(frames) // 6)]]))
    palette = sample.quantize(255, dither=Image.Dither.NONE)
    images = [
        Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE) for picture, _ in frames
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    images[0].save(
        path,
        save_all=True,
        append_images=images[1:],
        duration=[ms for _, ms in frames],
        loop=0,
        optimize=False,
    )
