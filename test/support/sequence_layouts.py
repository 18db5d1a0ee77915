# SPDX-License-Identifier: Apache-2.0
"""The sequence layouts over which what depends on a layout is tested, with the tiny preset on NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vla_edge_ros.config import (
    ActionConfig,
    CacheConfig,
    EngineConfig,
    FrameConfig,
    ModelSource,
    PromptConfig,
    VlaConfig,
)

FIFO = CacheConfig(capacity_slots=24 * 32, eviction="fifo")
BEHIND = PromptConfig(place="after_frame")
PARALLEL = ActionConfig(decoding="parallel")
LAYOUTS: dict[str, dict[str, Any]] = {
    "32 tokens and memory": {},
    "16 tokens, half a page": {"frame": FrameConfig(width=64, height=64)},
    "48 tokens, a page and a half": {"frame": FrameConfig(width=96, height=128)},
    "256 tokens and none": {
        "frame": FrameConfig(width=256, height=256),
        "cache": replace(FIFO, max_frames=0),
        "prompt": BEHIND,
    },
    "256 tokens in pages of 64": {
        "frame": FrameConfig(width=256, height=256),
        "cache": CacheConfig(capacity_slots=24 * 64, page_slots=64, eviction="fifo", max_frames=0),
        "prompt": BEHIND,
    },
    "with a suffix": {"prompt": BEHIND},
    "parallel": {"action": PARALLEL},
    "parallel, with a suffix, 48 tokens": {
        "frame": FrameConfig(width=96, height=128),
        "prompt": BEHIND,
        "action": PARALLEL,
    },
}


def config_of(name: str, **sections: Any) -> VlaConfig:
    """The layout of this name; ``sections`` replace whole sections of it."""
    given = {"cache": FIFO, "model": ModelSource(preset="tiny"), "engine": EngineConfig(name="numpy")}
    return VlaConfig(**{**given, **LAYOUTS[name], **sections})
