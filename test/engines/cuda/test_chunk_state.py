# SPDX-License-Identifier: Apache-2.0
"""The state that a pass reads: base ranks, refusals, and the layout of the struct."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.engines.cuda.chunk_state import state_dtype, write_state
from vla_edge_ros.errors import EngineError

PAGES, SLOTS = 8, 32


def new_state():
    return np.zeros(1, state_dtype(PAGES))


@given(st.lists(st.integers(1, SLOTS), min_size=1, max_size=PAGES), st.randoms())
def test_a_base_rank_is_the_number_of_slots_before_the_page(fills, random):
    pages = random.sample(range(PAGES), len(fills))
    state = new_state()
    write_state(state, pages, fills, fills[-1], 0, SLOTS)
    count = len(fills)
    assert state["pages"][0] == count and state["page"][0, :count].tolist() == pages
    assert state["base"][0, :count].tolist() == [sum(fills[:at]) for at in range(count)]


@pytest.mark.parametrize(
    ("pages", "fills", "tokens", "first_slot", "text"),
    [
        ([], [], 1, 0, "1 to 8 pages"),
        (list(range(9)), [1] * 9, 1, 0, "1 to 8 pages"),
        ([1, 1], [4, 4], 4, 0, "distinct pages"),
        ([8], [4], 4, 0, "below 8"),
        ([1, 2], [0, 4], 4, 0, "fills of 1 to 32"),
        ([1], [33], 33, 0, "fills of 1 to 32"),
        ([1], [5], 4, 0, "filled to slot 4"),
    ],
)
def test_a_view_that_cannot_be_is_refused(pages, fills, tokens, first_slot, text):
    with pytest.raises(EngineError, match=text):
        write_state(new_state(), pages, fills, tokens, first_slot, SLOTS)


def test_the_layout_is_that_of_the_kernels_struct():
    nvrtc = pytest.importorskip("vla_edge_ros.engines.cuda.nvrtc", reason="CuPy is not installed")
    header = nvrtc.kernel_text()["chunk_state.cuh"].decode()
    members = re.findall(r"^  int (\w+)(\[MAX_PAGES\])?;", header, re.MULTILINE)
    dtype = state_dtype(PAGES)
    assert [name for name, _ in members] == list(dtype.names)
    assert [bool(array) for _, array in members] == [bool(dtype[name].shape) for name in dtype.names]
    assert dtype.itemsize == 4 * (4 + 3 * PAGES)
