# SPDX-License-Identifier: Apache-2.0
"""Recordings of others as starting points, where they lie beside the repository (``$VLA_EDGE_DATA``)."""

from __future__ import annotations

import os
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


def real_files(kind: str, suffixes: tuple[str, ...], biggest: int) -> list[Path]:
    """Files below ``kind`` (``"bags"``, ``"clips"``) of at most ``biggest`` bytes, in a fixed order."""
    folder = Path(os.environ.get("VLA_EDGE_DATA") or _BESIDE) / kind
    files = [path for path in folder.rglob("*") if path.suffix in suffixes and path.stat().st_size <= biggest]
    return sorted(files, key=lambda path: path.name)
