# SPDX-License-Identifier: Apache-2.0
"""The state that a pass reads: base ranks, refusals, and the layout of the struct."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.engines.cuda.plan.chunk_state import LiveRows, state_dtype, write_state
from vla_edge_ros.errors import EngineError

PAGES, SLOTS = 8, 32


def new_state():
    return np.zeros(1, state_dtype(PAGES))


@given(st.lists(st.integers(1, SLOTS), min_size=1, max_size=PAGES), st.randoms())
def test_a_base_rank_is_the_number_of_slots_before_the_page(fills, random):
    pages = random.sample(range(PAGES), len(fills))
    state = new_state()
    write_state(state, pages, fills, SLOTS, frame=LiveRows(fills[-1]))
    count = len(fills)
    assert state["pages"][0] == count and state["page"][0, :count].tolist() == pages
    assert state["base"][0, :count].tolist() == [sum(fills[:at]) for at in range(count)]


@pytest.mark.parametrize(
    ("pages", "fills", "frame", "action", "text"),
    [
        ([], [], 1, 0, "1 to 8 pages"),
        (list(range(9)), [1] * 9, 1, 0, "1 to 8 pages"),
        ([1, 1], [4, 4], 4, 0, "distinct pages"),
        ([8], [4], 4, 0, "below 8"),
        ([1, 2], [0, 4], 4, 0, "fills of 1 to 32"),
        ([1], [33], 33, 0, "fills of 1 to 32"),
        ([1], [5], 4, 0, r"filled to slots \[4\] by this pass, got \[5\]"),
        ([1], [5], 0, 4, r"filled to slots \[4\] by this pass, got \[5\]"),
        ([1, 2], [4, 5], 5, 4, r"filled to slots \[5, 4\] by this pass, got \[4, 5\]"),
        ([1], [5], 5, 5, r"filled to slots \[5, 5\] by this pass, got \[5\]"),
        ([1], [5], 0, 0, r"filled to slots \[\]"),
    ],
)
def test_a_view_that_cannot_be_is_refused(pages, fills, frame, action, text):
    with pytest.raises(EngineError, match=text):
        write_state(new_state(), pages, fills, SLOTS, LiveRows(frame), LiveRows(action))


def test_a_pass_over_a_frame_and_drafts_writes_the_last_two_pages():
    state = new_state()
    write_state(state, [3, 1, 6], [9, 32, 7], SLOTS, LiveRows(32), LiveRows(2, 5))
    assert state["frame"][0].tolist() == (32, 0) and state["action"][0].tolist() == (2, 5)
    assert state["base"][0, :3].tolist() == [0, 9, 41]


def test_the_layout_is_that_of_the_kernels_struct():
    nvrtc = pytest.importorskip("vla_edge_ros.engines.cuda.load.nvrtc", reason="CuPy is not installed")
    header = nvrtc.kernel_text()["chunk_state.cuh"].decode()
    struct = re.search(r"struct ChunkState {(.*?)};", header, re.DOTALL).group(1)
    members = re.findall(r"^  (int|LiveRows) ([\w, ]+?)(\[MAX_PAGES\])?;", struct, re.MULTILINE)
    dtype = state_dtype(PAGES)
    named = [(name, kind, bool(array)) for kind, names, array in members for name in names.split(", ")]
    assert [name for name, *_ in named] == list(dtype.names)
    assert [array for *_, array in named] == [bool(dtype[name].shape) for name in dtype.names]
    assert [kind == "LiveRows" for _, kind, _ in named] == [bool(dtype[name].names) for name in dtype.names]
    assert re.search(r"struct LiveRows {\s*int count, first;", header)
    assert dtype["frame"].names == ("count", "first") and dtype.itemsize == 4 * (6 + 3 * PAGES)
