# SPDX-License-Identifier: Apache-2.0
"""Model folders that come with the package, by name."""

from __future__ import annotations

import os
from pathlib import Path

MODELS = Path(__file__).resolve().parent / "models"


def model_folder(path: str) -> str:
    """``path`` itself; where nothing has that name, the folder of the shipped model that it names."""
    # os.path, which says no of a text that can be no path: one too long, or with a zero byte.
    is_name = path != "" and os.path.basename(path) == path and not os.path.exists(path)
    shipped = os.path.join(MODELS, path)
    return shipped if is_name and os.path.isdir(shipped) else path
