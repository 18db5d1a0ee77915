# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer finds no bad access and no race in the kernels of a small model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("sanitized_chunk.py")
ROOT = Path(__file__).resolve().parents[3]
FOUND = 9


@pytest.mark.parametrize(
    ("head_dim", "weights", "kv"),
    [
        (64, "bf16", "bf16"),
        (128, "bf16", "bf16"),
        (64, "int8", "int8"),
        (64, "int4", "bf16"),
        (128, "int4", "int8"),
    ],
)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_a_small_model_is_clean(tool, head_dim, weights, kv):
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    program = [sys.executable, PROGRAM, str(head_dim), weights, kv]
    ran = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), *program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "completed" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert ran.returncode == 0, ran.stdout[-4000:]
