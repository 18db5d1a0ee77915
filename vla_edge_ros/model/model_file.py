# SPDX-License-Identifier: Apache-2.0
"""Files of a model folder as people have them: JSON, or something else under the name of a model file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from vla_edge_ros.errors import WeightsError

_HEAD_BYTES = 512
_NOT_A_MODEL_FILE = (
    (b"version https://git-lfs", "it is a Git LFS pointer, not the file: run `git lfs pull` there"),
    (b"<!doctype", "it is a web page: save the file itself, not the page that shows it"),
    (b"<html", "it is a web page: save the file itself, not the page that shows it"),
    (b"<?xml", "it is an XML answer of a server: was the download refused?"),
    (b"gguf", "it is a GGUF file: take the folder that it was converted from"),
    (b"pk\x03\x04", "it is a zip file, as torch.save writes it: save the model with save_pretrained"),
)


def likely_cause(path: Path) -> str:
    """Why ``path`` is not the model file that its name promises; empty where nothing tells."""
    try:
        if path.is_symlink() and not path.exists():
            return f"it is a link to {os.readlink(path)}, which is missing: was a hub cache copied in part?"
        if not path.exists():
            return "there is no such file"
        if not path.is_file():
            return "it is a folder, or no plain file"
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    if not head:
        return "it is empty: was the download cut?"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return next((cause for magic, cause in _NOT_A_MODEL_FILE if start.startswith(magic)), "")


def with_cause(text: str, path: Path) -> str:
    """``text`` and, where something tells, the likely cause in brackets."""
    cause = likely_cause(path)
    return f"{text} ({cause})" if cause else text


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; ``WeightsError`` names the file and the likely cause."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = likely_cause(path) or error.strerror or error
        raise WeightsError(f"{path}: expected a JSON file that can be read: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise WeightsError(with_cause(f"{path}: expected JSON, got {error}", path)) from error
    if not isinstance(values, dict):
        raise WeightsError(f"{path}: expected a JSON object, got {type(values).__name__}")
    return values
