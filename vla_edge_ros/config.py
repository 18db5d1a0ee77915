# SPDX-License-Identifier: Apache-2.0
"""Every parameter of the reasoning node: one tree of frozen dataclasses, validated once.

The ROS layer declares its parameters by walking this tree (``timing.deadline_ms`` ...), the documentation
table is generated from it, so nothing is written twice. A value that cannot work raises ``ConfigError``
whose text starts with the dotted name. Units are in the names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from vla_edge_ros.action_config import ACTION_NAMES as ACTION_NAMES
from vla_edge_ros.action_config import ActionConfig
from vla_edge_ros.config_fields import check_fields, param
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.sequence import Decoding, SequenceLayout
from vla_edge_ros.shipped_models import model_folder
from vla_edge_ros.timing_config import TimingConfig as TimingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameConfig:
    """The picture the model sees; any camera size is resized to it."""

    width: int = param(128, "model frame width in pixels", low=1)
    height: int = param(64, "model frame height in pixels", low=1)
    patch_size: int = param(16, "side of a square patch in pixels; one patch is one vision token", low=1)

    def __post_init__(self) -> None:
        check_fields("frame", self)
        if self.width % self.patch_size or self.height % self.patch_size:
            raise ConfigError(
                f"frame.patch_size must divide width and height, "
                f"got {self.width}x{self.height} / {self.patch_size}"
            )

    @property
    def tokens(self) -> int:
        """Vision tokens a frame."""
        return (self.width // self.patch_size) * (self.height // self.patch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Which decoder: a Hugging Face folder, or a preset of sizes with seeded random weights."""

    path: str = param(
        "", "folder with config.json and *.safetensors, or the name of a shipped one; empty: random weights"
    )
    preset: str = param(
        "qwen2.5-coder-1.5b", "sizes used without a path", choices=("qwen2.5-coder-1.5b", "tiny")
    )
    seed: int = param(0, "seed of random weights and of the patch projection", low=0)

    def __post_init__(self) -> None:
        check_fields("model", self)
        object.__setattr__(self, "path", model_folder(os.path.expanduser(self.path)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What computes."""

    name: str = param("auto", "auto takes cuda where a kernel runs", choices=("auto", "numpy", "cuda"))
    weights: str = param(
        "bf16",
        "how matrices are kept; int8: a scale a row, int4: a scale for 128, with an int8 embedding and head",
        choices=("bf16", "int8", "int4"),
    )
    kv: str = param(
        "bf16",
        "how cuda keeps keys and values; int8: a scale for 16, 9/16 of the bytes; numpy keeps float32",
        choices=("bf16", "int8"),
    )
    vram_ceiling_mb: int = param(8192, "hard limit of device memory; start-up fails above it", low=1)
    decode_step: str = param(
        "auto",
        "kernels: a graph of them; persistent: one for all layers (sm_90); auto: the faster at start-up",
        choices=("auto", "kernels", "persistent"),
    )
    draft: str = param(
        "last_action",
        "last_action: cuda checks the last action's tokens at once: fewer passes, the same tokens",
        choices=("none", "last_action"),
    )

    def __post_init__(self) -> None:
        check_fields("engine", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """The KV cache: pages of ``page_slots``, one or more a frame."""

    capacity_slots: int = param(4096, "KV slots in all", low=1)
    page_slots: int = param(32, "slots of one page; a frame takes one or more whole pages", low=1)
    eviction: str = param(
        "novelty",
        "which frame to forget",
        choices=(
            "fifo",
            "sliding_window",
            "semantic",
            "bridge",
            "bridge_distance",
            "reservoir",
            "time_thinning",
            "novelty",
        ),
    )
    window_frames: int = param(0, "sliding_window's length in frames; 0: as many as fit", low=0)
    protect_latest: int = param(
        8, "the newest frames that are never evicted, except by fifo, sliding_window, semantic", low=1
    )
    max_frames: int = param(
        -1, "frames remembered beside the newest; 0: none, for one-picture models; -1: as many as fit", low=-1
    )
    keep_on_deactivate: bool = param(
        False, "whether kept frames and the last action's draft outlast a deactivation; false: a blank memory"
    )

    def __post_init__(self) -> None:
        check_fields("cache", self)
        if self.capacity_slots % self.page_slots:
            raise ConfigError(
                f"cache.capacity_slots must be a multiple of page_slots, "
                f"got {self.capacity_slots} / {self.page_slots}"
            )

    @property
    def pages(self) -> int:
        return self.capacity_slots // self.page_slots


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionConfig:
    """Whether a chunk may start."""

    policy: str = param("robust", "cost estimator", choices=("ema", "robust"))
    cost_quantile: float = param(
        0.5,
        "robust: share of recent chunks whose cost must fit; above 0.5 fewer are aborted, more refused",
        low=0.5,
        high=0.99,
    )
    ema_weight: float = param(0.2, "weight of a new sample in the ema policy", low=0.001, high=1.0)
    probe_after: int = param(
        4, "refusals in a row before a probe is admitted; doubles to probe_every_max", low=1
    )
    probe_every_max: int = param(30, "the longest run of refusals between two probes", low=1)
    remember: bool = param(
        True,
        "keep a refused or aborted cycle's frame where its prefill alone fits; not with parallel decoding, "
        "and not with a camera slower than the loop",
    )

    def __post_init__(self) -> None:
        check_fields("admission", self)
        if self.probe_every_max < self.probe_after:
            raise ConfigError(
                f"admission.probe_every_max must be at least probe_after, "
                f"got {self.probe_every_max} < {self.probe_after}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackConfig:
    """What is published in a cycle without a fresh action. A repeated rate keeps an arm moving: bounded."""

    mode: str = param("repeat", "first rung of the ladder", choices=("repeat", "zero", "none"))
    max_repeats: int = param(3, "repeats of one action before zero motion", low=0)
    max_action_age_ms: float = param(100.0, "no repeat of an action whose frame is older", low=0.0)

    def __post_init__(self) -> None:
        check_fields("fallback", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptConfig:
    """The instruction: in front of the frames and pinned in the cache, or behind each frame."""

    instruction: str = param("Do the task shown by the camera.", "what the robot shall do")
    max_pages: int = param(2, "pages of the instruction: pinned, or behind the frame", low=1)
    place: str = param(
        "before_frames",
        "before_frames: pinned in the cache; after_frame: computed anew behind each frame (OpenVLA)",
        choices=("before_frames", "after_frame"),
    )
    on_change: str = param("flush", "kept frames when the instruction changes", choices=("flush", "keep"))

    def __post_init__(self) -> None:
        check_fields("prompt", self)
        if not self.instruction.strip():
            raise ConfigError(f"prompt.instruction must say something, got {self.instruction!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingConfig:
    """What is kept of a run on disk."""

    path: str = param("", "folder for one row a cycle (vla_edge_ros.recording.summary reads it); empty: off")
    topics: bool = param(True, "with a path: also the topics action, status and diagnostics as a bag (MCAP)")

    def __post_init__(self) -> None:
        check_fields("recording", self)


# Parameters of earlier versions, and what to write instead.
REPLACED_PARAMETERS = {
    "action.held": "list a kind for each dimension in action.kinds: position for those it named, else rate"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VlaConfig:
    """The whole tree; checks between sections live here."""

    frame: FrameConfig = field(default_factory=FrameConfig)
    model: ModelSource = field(default_factory=ModelSource)
    engine: EngineConfig = field(default_factory=EngineConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    timing: TimingConfig = field(default_factory=TimingConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    action: ActionConfig = field(default_factory=ActionConfig)
    fallback: FallbackConfig = field(default_factory=FallbackConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    recording: RecordingConfig = field(default_factory=RecordingConfig)

    def __post_init__(self) -> None:
        if self.action.tokens > self.cache.page_slots:
            raise ConfigError(
                f"cache.page_slots must hold one action: {self.action.tokens} action tokens > "
                f"{self.cache.page_slots}"
            )
        layout, frames = self.layout, max(2, self.cache.protect_latest + 1)  # frames to choose from
        if layout.most_frames == 0:
            frames = 0
        elif layout.most_frames is not None and layout.most_frames < frames:
            raise ConfigError(
                f"cache.max_frames must be 0, or at least {frames} beside cache.protect_latest "
                f"{self.cache.protect_latest}, got {layout.most_frames}"
            )
        need = layout.fixed_pages + frames * layout.frame_pages
        if self.cache.pages < need:
            raise ConfigError(
                f"cache.capacity_slots is too small: {layout.prompt_pages} prompt + {layout.suffix_pages} "
                f"instruction behind the frame + 1 action + {1 + frames} frames of {layout.frame_pages} = "
                f"{need} pages of {self.cache.page_slots} = {need * self.cache.page_slots} slots, "
                f"got {self.cache.capacity_slots}"
            )

    @property
    def layout(self) -> SequenceLayout:
        """The sequence of one chunk."""
        slots, is_behind = self.cache.page_slots, self.prompt.place == "after_frame"
        return SequenceLayout(
            page_slots=slots,
            prompt_pages=1 if is_behind else self.prompt.max_pages,
            frame_tokens=self.frame.tokens,
            suffix_tokens=self.prompt.max_pages * slots if is_behind else 0,
            action_tokens=self.action.tokens,
            decoding=Decoding(self.action.decoding),
            most_frames=None if self.cache.max_frames < 0 else self.cache.max_frames,
        )
