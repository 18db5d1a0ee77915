# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import struct

from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.replay.mcap_repair import MAGIC, RepairedMcap, whole_bytes

RECORDS = st.lists(st.tuples(st.integers(3, 14), st.binary(max_size=40)), max_size=8)


def pack(records) -> list[bytes]:
    return [struct.pack("<BQ", opcode, len(body)) + body for opcode, body in records]


@given(records=RECORDS, cut=st.integers(0, 500))
def test_every_whole_record_is_kept_and_nothing_else(records, cut, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "cut.mcap"
    pieces = [MAGIC, *pack(records)]
    data = b"".join(pieces)
    path.write_bytes(data[:cut])
    expected = 0
    for piece in pieces:
        if expected + len(piece) > min(cut, len(data)):
            break
        expected += len(piece)
    assert whole_bytes(path) == expected


@given(reads=st.lists(st.tuples(st.integers(-60, 60), st.integers(0, 2), st.integers(0, 50)), max_size=10))
def test_the_repaired_file_reads_like_the_same_bytes_in_memory(reads, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "repaired.mcap"
    kept = MAGIC + pack([(5, b"a" * 20)])[0]
    path.write_bytes(kept + b"\x05\xff")
    with RepairedMcap(path).open("rb") as ours:
        whole = ours.read()
        assert whole[: len(kept)] == kept and whole[-8:] == MAGIC and len(whole) == len(kept) + 37
        truth = io.BytesIO(whole)
        truth.seek(0, io.SEEK_END)
        for offset, whence, size in reads:
            base = {0: 0, 1: truth.tell(), 2: len(whole)}[whence]
            if base + offset < 0:
                continue
            target = base + offset
            assert ours.seek(offset, whence) == truth.seek(target)
            assert ours.read(size) == truth.read(size)


def test_the_end_of_the_data_section_ends_the_search(tmp_path):
    path = tmp_path / "whole.mcap"
    data = MAGIC + pack([(5, b"x")])[0]
    path.write_bytes(data + pack([(0x0F, b"abcd"), (3, b"index")])[0] + b"rest")
    assert whole_bytes(path) == len(data)
