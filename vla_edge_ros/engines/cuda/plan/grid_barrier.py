# SPDX-License-Identifier: Apache-2.0
"""The grid barriers of the persistent kernel, as the host sees them: grid_barrier.cuh."""

from __future__ import annotations

BARRIERS = ("qkv", "attention", "output", "gate_up", "down")  # a layer's, in the kernel's order
BARRIER_BYTES = (len(BARRIERS) + 2) * 128  # of ``GridBarriers``
STOPPED = 1 + len(BARRIERS)  # what the kernel leaves when the host stopped it, in place of 1 + a barrier
MOST_POLLS = 4_000_000  # until a wait times out: 1 to 2 s, where a step takes 1 ms
