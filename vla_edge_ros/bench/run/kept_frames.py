# SPDX-License-Identifier: Apache-2.0
"""What the model sees of the past, written down by an engine's wrapper.

Pages say it exactly: those of a chunk's view, whatever policy chose them and however cycles ended. Once a
second the times of the frames in view go to ``kept.jsonl``; at given moments some of them go, as small
pictures, to ``kept_<number>.npy``. Only frames in the cache are held, and a thread writes: the reasoning
thread pays 20 to 30 us a chunk for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.wrapped_engine import WrappedEngine
from vla_edge_ros.engines.base import Engine, Vision
from vla_edge_ros.recording.background_writer import BackgroundWriter
from vla_edge_ros.types import NS_PER_S, CacheView

KEPT_FILE = "kept.jsonl"
PICTURE_WIDTH = 64  # pixels; more would say no more at the size of a report
SHOWN = 12  # pictures a moment
LOOK_S = 1.0


class Seen(NamedTuple):
    """``number`` counts chunks, since pictures come without one."""

    number: int
    at_ns: int
    picture: NDArray[np.uint8]


class KeptFrames:
    """Writes to ``folder``; ``moments_s``: when pictures are written, in seconds since ``begin``.

    ``see`` and ``look`` are called by the reasoning thread, ``begin`` and ``close`` by the owner.
    """

    def __init__(
        self, folder: Path, moments_s: Sequence[float], now_ns: Callable[[], int] = time.monotonic_ns
    ):
        self._folder = folder
        self._moments_s = sorted(moments_s)
        self._now_ns = now_ns
        self._begun_ns: int | None = None
        self._due_s = 0.0
        self._chunks = 0
        self._written = 0
        self._incoming: Seen | None = None
        self._by_page: dict[int, Seen] = {}
        self._writer: BackgroundWriter[dict[str, Any]] = BackgroundWriter("kept frames", self._write, 1000)

    def begin(self) -> None:
        """Time 0; called once the first picture has come. What came before has negative times."""
        self._begun_ns = self._now_ns()

    def see(self, pixels: NDArray[np.uint8]) -> None:
        step = max(1, pixels.shape[1] // PICTURE_WIDTH)
        self._incoming = Seen(self._chunks, self._now_ns(), pixels[::step, ::step].copy())
        self._chunks += 1

    def look(self, view: CacheView) -> None:
        if self._incoming is None:
            return
        for page in view.frame_pages.tolist():
            self._by_page[page] = self._incoming
        if self._begun_ns is None:
            return
        at_s = (self._now_ns() - self._begun_ns) / NS_PER_S
        if at_s >= min([self._due_s, *self._moments_s[:1]]):
            self._due_s = at_s + LOOK_S
            self._note(view, at_s)

    def forget(self, pages: Sequence[int]) -> None:
        """These pages hold a prompt now; the chunks that warm the engine up write over all of them."""
        for page in pages:
            self._by_page.pop(page, None)

    def close(self) -> None:
        self._writer.close()

    def _note(self, view: CacheView, at_s: float) -> None:
        assert self._begun_ns is not None
        pages = (self._by_page[page] for page in view.pages.tolist() if page in self._by_page)
        kept = list({seen.number: seen for seen in pages}.values())
        note: dict[str, Any] = {
            "at_s": round(at_s, 3),
            "kept_s": [round((seen.at_ns - self._begun_ns) / NS_PER_S, 3) for seen in kept],
            "chunks": [seen.number for seen in kept],
        }
        if self._moments_s and at_s >= self._moments_s[0]:
            self._moments_s.pop(0)
            places = np.unique(np.linspace(0, len(kept) - 1, min(SHOWN, len(kept))).round().astype(int))
            note["shown_s"] = [note["kept_s"][place] for place in places]
            note["pictures"] = np.stack([kept[place].picture for place in places])
        self._writer.put(note)

    def _write(self, notes: Sequence[dict[str, Any]]) -> None:
        with (self._folder / KEPT_FILE).open("a", encoding="utf-8") as file:
            for note in notes:
                if (pictures := note.pop("pictures", None)) is not None:
                    note["file"] = f"kept_{self._written}.npy"
                    np.save(self._folder / note["file"], pictures)
                    self._written += 1
                file.write(json.dumps(note) + "\n")


class WatchedEngine(WrappedEngine):
    """Shows each frame and each view to ``kept``."""

    def __init__(self, engine: Engine, kept: KeptFrames):
        super().__init__(engine)
        self._kept = kept

    def write_prompt(self, token_ids: NDArray[np.int64], pages: Sequence[int]) -> None:
        self._engine.write_prompt(token_ids, pages)
        self._kept.forget(pages)

    def embed_frame(self, pixels: NDArray[np.uint8]) -> Vision:
        self._kept.see(pixels)
        return self._engine.embed_frame(pixels)

    def prefill(self, view: CacheView, draft: Sequence[int] = (), suffix: Sequence[int] = ()) -> float:
        prefill_ms = self._engine.prefill(view, draft, suffix)
        self._kept.look(view)
        return prefill_ms
