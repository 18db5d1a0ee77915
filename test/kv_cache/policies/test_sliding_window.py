# SPDX-License-Identifier: Apache-2.0
"""Fifo and SlidingWindow together: what they share and where they differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.config import CacheConfig
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.fifo import Fifo
from vla_edge_ros.kv_cache.policies.sliding_window import SlidingWindow


def kept_after_each_frame(name: str, steps: list[int], room: int, window: int) -> list[list[int]]:
    policy = make_policy(CacheConfig(eviction=name, window_frames=window))
    memory, history, sequence = FrameMemory(room, 0), [], 0
    for step in steps:
        sequence += step
        memory.append(sequence, sequence * 33, 0, None)
        for _ in range(policy.excess(memory, room)):
            memory.remove(policy.choose(memory))
        history.append(memory.sequences.tolist())
    return history


@given(
    steps=st.lists(st.integers(1, 5), min_size=1, max_size=80),
    room=st.integers(1, 30),
    spare=st.sampled_from([None, 0, 7]),
)
def test_a50_sliding_window_of_the_whole_cache_is_fifo(steps, room, spare):
    window = 0 if spare is None else room + spare
    assert kept_after_each_frame("sliding_window", steps, room, window) == kept_after_each_frame(
        "fifo", steps, room, 0
    )


@given(frames=st.integers(1, 80), room=st.integers(1, 30), window=st.integers(1, 30))
def test_sliding_window_keeps_the_latest_even_where_there_is_room(frames, room, window):
    history = kept_after_each_frame("sliding_window", [1] * frames, room, window)
    for seen, kept in enumerate(history, start=1):
        assert kept == list(range(1, seen + 1))[-min(room, window) :]


def test_names_in_the_configuration_lead_to_the_two_classes():
    assert type(make_policy(CacheConfig(eviction="fifo"))) is Fifo
    assert type(make_policy(CacheConfig(eviction="sliding_window"))) is SlidingWindow
