# SPDX-License-Identifier: Apache-2.0
"""The parameter tree refuses what cannot work and names it."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass

import pytest

from vla_edge_ros.config import (
    ActionConfig,
    AdmissionConfig,
    CacheConfig,
    FallbackConfig,
    FrameConfig,
    ModelSource,
    TimingConfig,
    VlaConfig,
)
from vla_edge_ros.errors import ConfigError


def leaves():
    for section in fields(VlaConfig()):
        for item in fields(getattr(VlaConfig(), section.name)):
            yield section.name, getattr(VlaConfig(), section.name), item


def test_defaults_are_the_design_constants():
    config = VlaConfig()
    assert (config.timing.deadline_ms, config.timing.margin_ms, config.timing.period_ms) == (33.0, 2.0, 33.0)
    assert (config.cache.capacity_slots, config.cache.page_slots, config.cache.pages) == (4096, 32, 128)
    assert (config.frame.width, config.frame.height, config.frame.tokens) == (128, 64, 32)
    assert config.action.tokens == 8 and config.action.bins == 256
    assert config.admission.ema_weight == 0.2 and config.engine.vram_ceiling_mb == 8192


def test_every_leaf_has_a_description_and_a_plain_type():
    for section, config, item in leaves():
        value = getattr(config, item.name)
        assert not is_dataclass(value)
        assert item.metadata["description"], f"{section}.{item.name}"
        assert type(value) in (bool, int, float, str, tuple)


@pytest.mark.parametrize(
    ("section", "name"), [(s, i.name) for s, c, i in leaves() if type(getattr(c, i.name)) is float]
)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "33", None, True])
def test_no_float_takes_what_is_not_a_finite_number(section, name, value):
    with pytest.raises(ConfigError, match=rf"^{section}\.{name} must be "):
        type(getattr(VlaConfig(), section))(**{name: value})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TimingConfig(period_ms=16.7), "timing.deadline_ms must not exceed period_ms"),
        (
            lambda: TimingConfig(margin_ms=32.0),
            "timing.margin_ms [+] publish_lead_ms must be below deadline_ms",
        ),
        (
            lambda: TimingConfig(recheck_margin_ms=32.0),
            "timing.recheck_margin_ms [+] publish_lead_ms must be below deadline_ms",
        ),
        (lambda: TimingConfig(deadline_ms=0.0), "timing.deadline_ms must be at least 1.0, got 0.0"),
        (lambda: CacheConfig(capacity_slots=4095), "cache.capacity_slots must be a multiple of page_slots"),
        (lambda: CacheConfig(eviction="lru"), "cache.eviction must be one of fifo, .*got 'lru'"),
        (lambda: CacheConfig(capacity_slots=True), "cache.capacity_slots must be a int, got True"),
        (lambda: FrameConfig(width=130), "frame.patch_size must divide width and height, got 130x64 / 16"),
        (
            lambda: VlaConfig(frame=FrameConfig(width=256), cache=CacheConfig(capacity_slots=22 * 32)),
            r"10 frames of 2 = 23 pages of 32 = 736 slots, got 704",
        ),
        (lambda: VlaConfig(cache=CacheConfig(max_frames=5)), "cache.max_frames must be 0, or at least 9"),
        (lambda: ModelSource(preset="huge"), "model.preset must be one of"),
        (lambda: ActionConfig(low=(0.0,)), "action.low must have 8 values, one a name, got 1"),
        (lambda: ActionConfig(low=(2.0,) * 8), "action.low must not be above action.high for terminate"),
        (lambda: ActionConfig(names=("dx",) * 8), "action.names must be non-empty and unique"),
        (
            lambda: ActionConfig(kinds=("rate",) * 7 + ("speed",)),
            "action.kinds must be one of delta, rate, position, got 'speed'",
        ),
        (lambda: ActionConfig(names=("a\nb", *"cdefghi")), r"action.names must be words .* got 'a\\nb'"),
        (lambda: ActionConfig(names=(" ", *"cdefghi")), "action.names must be words in one line, got ' '"),
        (lambda: ActionConfig(kinds=("rate",)), "action.kinds must have 8 values, one a name, got 1"),
        (lambda: ActionConfig(names=("a",), low=(0.0,), high=(1.0,)), "action.kinds must have 1 values"),
        (
            lambda: ActionConfig(low=(0.5,) + (-1.0,) * 7, high=(1.5,) + (1.0,) * 7),
            "action.kinds: terminate must be a position, or its range must hold 0: .* got 0.5 to 1.5",
        ),
        (lambda: ActionConfig(low=(-2.0,) * 8, high=(-0.1,) * 8), "terminate must be a position"),
        (lambda: FallbackConfig(max_repeats=-1), "fallback.max_repeats must be at least 0, got -1"),
        (lambda: AdmissionConfig(probe_after=31), "admission.probe_every_max must be at least probe_after"),
    ],
)
def test_impossible_values_are_refused_by_name(make, text):
    with pytest.raises(ConfigError, match=text):
        make()


def test_whole_numbers_are_taken_for_floats():
    assert TimingConfig(period_ms=50, deadline_ms=33).period_ms == 50
