# SPDX-License-Identifier: Apache-2.0
"""Which places of which pages hold figures, and what belongs there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from vla_edge_ros.bench.figures import chunk_tables, graph_tables, latency_picture, loop_tables, study_tables
from vla_edge_ros.bench.figures.board_tables import BOARD_FIGURES
from vla_edge_ros.bench.figures.data import ROOT

PICTURE = ROOT / "docs" / "images" / "latency.svg"
_PLACE = re.compile(r"(<!-- figures: ([\w.-]+) -->)(.*?)(<!-- end -->)", re.DOTALL)

FIGURES: dict[str, Callable[[], str]] = {
    "measured": graph_tables.measured_table,
    "chunk": chunk_tables.chunk_table,
    "live": graph_tables.live_table,
    "parts": graph_tables.parts_table,
    "phases": chunk_tables.phase_table,
    "accuracy": chunk_tables.accuracy_table,
    "kv-accuracy": chunk_tables.kv_accuracy_table,
    "retention-joined": study_tables.joined_table,
    "retention-clips": study_tables.clips_table,
    "closed-loop": loop_tables.closed_loop_table,
    "closed-loop-controls": loop_tables.controls_table,
    "closed-loop-timing": loop_tables.timing_table,
    "tabletop-live": graph_tables.tabletop_table,
    "closed-loop-formats": loop_tables.formats_table,
    "cue-retention": loop_tables.cue_retention_table,
    "admission": study_tables.admission_table,
    "remembering": study_tables.remembering_table,
    "remembering-cameras": study_tables.remembering_cameras_table,
    "draft-passes": study_tables.draft_passes_table,
    **BOARD_FIGURES,
    "soaked-chunks": chunk_tables.soaked_chunks,
    "plain-chunk-ms": partial(chunk_tables.median, "chunk_ms"),
    "rejected-chunk-ms": partial(chunk_tables.median, "chunk_ms", draft="rejected"),
    "accepted-chunk-ms": partial(chunk_tables.median, "chunk_ms", draft="accepted"),
    "parallel-chunk-ms": chunk_tables.parallel_chunk_ms,
    "plain-step-ms": partial(chunk_tables.median, "decode_step_ms"),
    "graph-step-ms": partial(chunk_tables.median, "decode_step_ms", step="kernels"),
    "drafted-step-ms": partial(chunk_tables.median, "decode_step_ms", draft="none"),
    "plain-prefill-ms": partial(chunk_tables.median, "prefill_ms"),
    "planned-prefill-ms": partial(chunk_tables.median, "prefill_ms", draft="none"),
    "drafted-prefill-ms": partial(chunk_tables.median, "prefill_ms", draft="accepted"),
    "drafts-add-ms": chunk_tables.drafts_add_ms,
    "int8-step-ms": partial(chunk_tables.median, "decode_step_ms", "int8"),
    "int4-step-ms": partial(chunk_tables.median, "decode_step_ms", "int4"),
    "int8-saves": partial(chunk_tables.saved, "int8"),
    "int4-saves": partial(chunk_tables.saved, "int4"),
    "bf16-rejected-factor": partial(chunk_tables.rejected_factor, "bf16"),
    "int8-rejected-factor": partial(chunk_tables.rejected_factor, "int8"),
    "int4-rejected-factor": partial(chunk_tables.rejected_factor, "int4"),
}


def pages() -> Iterator[Path]:
    """Every Markdown page that may hold figures."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def filled(text: str) -> str:
    """``text`` with all its figures written anew. Raises ``KeyError`` for a name that does not exist."""

    def write(match: re.Match[str]) -> str:
        begin, name, old, end = match.groups()
        edge = "\n" if "\n" in old else ""
        return f"{begin}{edge}{FIGURES[name]()}{edge}{end}"

    return _PLACE.sub(write, text)


def stale() -> dict[Path, str]:
    """The files that are not what the data say, and what they should be."""
    found = {}
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (right := filled(text)) != text:
            found[page] = right
    picture = latency_picture.render()
    if not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != picture:
        found[PICTURE] = picture
    return found
