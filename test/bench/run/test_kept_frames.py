# SPDX-License-Identifier: Apache-2.0
"""What the wrapper writes down is what the cache holds, policy by policy, against the cache's own books."""

from __future__ import annotations

import json

import numpy as np
import pytest

from vla_edge_ros.bench.run.kept_frames import KEPT_FILE, KeptFrames, WatchedEngine
from vla_edge_ros.config import CacheConfig, VlaConfig
from vla_edge_ros.engines.base import Vision
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.types import NS_PER_S


class Silent:
    """An engine that computes nothing."""

    name = "silent"

    def write_prompt(self, token_ids, pages):
        pass

    def embed_frame(self, pixels):
        return Vision(np.zeros(4, np.float32), 0.0)

    def prefill(self, view, draft=(), suffix=()):
        return 0.0


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def notes(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / KEPT_FILE).read_text().splitlines()]


@pytest.mark.parametrize("policy", ["fifo", "time_thinning", "reservoir"])
def test_each_look_holds_the_frames_of_the_cache_and_the_newest(tmp_path, policy):
    """A frame a second; every fifth chunk is rolled back, and must not be seen later."""
    config = VlaConfig(cache=CacheConfig(capacity_slots=512, eviction=policy))
    cache = KvCache.for_model(config, make_policy(config.cache), 4)
    cache.set_prompt(5)
    clock = Clock()
    kept = KeptFrames(tmp_path, [9.5, 30.0], clock)
    engine = WatchedEngine(Silent(), kept)
    kept.begin()
    expected, pictures = [], {}
    for number in range(40):
        clock.now_ns = number * NS_PER_S
        pixels = np.full((64, 128, 3), number, np.uint8)
        pictures[number] = pixels[::2, ::2]
        with cache.begin(number + 1, clock.now_ns) as chunk:
            engine.embed_frame(pixels)
            engine.prefill(chunk.view)
            expected.append([*(cache.memory.sequences - 1).tolist(), number])
            if number % 5:
                chunk.commit(None)
    kept.close()
    found = notes(tmp_path)
    assert [note["chunks"] for note in found] == expected
    assert [note["kept_s"] for note in found] == [[float(n) for n in frames] for frames in expected]
    shown = [note for note in found if "file" in note]
    assert [note["at_s"] for note in shown] == [10.0, 30.0]
    for note in shown:
        written = np.load(tmp_path / note["file"])
        for seconds, picture in zip(note["shown_s"], written, strict=True):
            assert np.array_equal(picture, pictures[round(seconds)])
        assert note["shown_s"][0] == note["kept_s"][0] and note["shown_s"][-1] == note["kept_s"][-1]


def test_a_page_that_holds_the_prompt_is_no_frame(tmp_path):
    """Chunks that warm an engine up write frames over the prompt's pages too."""
    kept = KeptFrames(tmp_path, [])
    engine = WatchedEngine(Silent(), kept)
    config = VlaConfig(cache=CacheConfig(capacity_slots=512, eviction="fifo"))
    cache = KvCache.for_model(config, make_policy(config.cache), 4)
    pages = cache.set_prompt(40)
    view = cache.view(cache.incoming_block)
    view.pages[-1] = pages[0]
    engine.embed_frame(np.zeros((64, 128, 3), np.uint8))
    engine.prefill(view)
    engine.write_prompt(np.zeros(40, np.int64), pages)
    kept.begin()
    engine.embed_frame(np.zeros((64, 128, 3), np.uint8))
    engine.prefill(cache.view(cache.incoming_block))
    kept.close()
    assert [note["chunks"] for note in notes(tmp_path)] == [[1]]
