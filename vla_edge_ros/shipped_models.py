# SPDX-License-Identifier: Apache-2.0
"""Model folders that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

MODELS = Path(__file__).resolve().parent / "models"


def model_folder(path: str) -> str:
    """``path`` itself; where nothing has that name, the folder of the shipped model that it names."""
    shipped = MODELS / path
    is_name = path and Path(path).name == path and not Path(path).exists()
    return str(shipped) if is_name and shipped.is_dir() else path
