# SPDX-License-Identifier: Apache-2.0
"""The README's animation can be made again from what the package ships."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_it_is_written_from_the_shipped_weights(tmp_path):
    pytest.importorskip("mujoco", reason="the animation plays with physics")
    if not (ROOT / "vla_edge_ros" / "models" / "tabletop-1024").is_dir():
        pytest.skip("no trained weights in this checkout")
    out = tmp_path / "two.gif"
    command = [sys.executable, "-m", "vla_edge_ros.bench.studies.memory_animation", "--delay", "5"]
    ran = subprocess.run([*command, "--out", str(out)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert out.stat().st_size < 2e6 and "fifo: " in ran.stdout
