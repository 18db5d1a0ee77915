# SPDX-License-Identifier: Apache-2.0
"""The measured resident set follows what is allocated."""

from __future__ import annotations

import mmap

import pytest

from vla_edge_ros.bench.process_memory import gpu_used_mb, resident_mb


def test_resident_memory_follows_an_allocation():
    before = resident_mb()
    block = mmap.mmap(-1, 64 * 2**20)  # fresh pages, not what an allocator had left of earlier tests
    block.write(b"x" * len(block))
    assert resident_mb() - before == pytest.approx(64, abs=8)
    block.close()


def test_no_device_counts_as_no_memory_in_use():
    assert gpu_used_mb() >= 0.0
