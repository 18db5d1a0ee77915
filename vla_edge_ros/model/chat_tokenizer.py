# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's tokenizer.json and chat template, without transformers.

The template is taken from ``chat_template.jinja``, or ``chat_template`` in ``tokenizer_config.json``. It is
the checkpoint's code, so it runs in Jinja's sandbox; Jinja is imported only where there is a template. A
folder without one gets the instruction's plain tokens, with whatever special tokens its tokenizer adds.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from vla_edge_ros.errors import ConfigError, WeightsError


class ChatTokenizer:
    """Turns an instruction into the token ids of one user turn, up to where the model would answer."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._tokenizer = _read_tokenizer(folder / "tokenizer.json")
        self._settings = _read_settings(folder / "tokenizer_config.json")
        self._template = _find_template(folder, self._settings)

    @staticmethod
    @lru_cache(maxsize=1)
    def of_folder(folder: str) -> ChatTokenizer:
        """The folder's tokenizer, read once: a changed instruction should not wait for megabytes of JSON."""
        return ChatTokenizer(Path(folder))

    @property
    def padding_id(self) -> int:
        """The beginning-of-text token where there is one, else the end-of-text token, else id 0."""
        for name in ("bos_token", "eos_token"):
            identity = self._tokenizer.token_to_id(self._special_token(name))
            if identity is not None:
                return identity
        return 0

    def encode(self, instruction: str) -> list[int]:
        if self._template is None:
            return self._tokenizer.encode(instruction).ids
        # The template writes the special tokens itself.
        return self._tokenizer.encode(self._render(self._template, instruction), add_special_tokens=False).ids

    def _render(self, template: str, instruction: str) -> str:
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError as error:
            raise ConfigError(
                f"model.path: the chat template of {self._folder} needs the package Jinja2, got {error}"
            ) from error
        # Options and names as chat templates are written for them.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse(TemplateError)
        try:
            return environment.from_string(template).render(
                messages=[{"role": "user", "content": instruction}],
                add_generation_prompt=True,
                bos_token=self._special_token("bos_token"),
                eos_token=self._special_token("eos_token"),
            )
        except Exception as error:  # a template is the checkpoint's code and may raise anything
            raise WeightsError(f"{self._folder}: the chat template failed: {error}") from error

    def _special_token(self, name: str) -> str:
        token = self._settings.get(name) or ""
        return token.get("content", "") if isinstance(token, dict) else token


def _refuse(error_type: type[Exception]) -> Any:
    def raise_exception(text: str) -> None:
        raise error_type(text)

    return raise_exception


def _read_tokenizer(path: Path) -> Tokenizer:
    if not path.is_file():
        raise WeightsError(f"{path}: expected the checkpoint's tokenizer, found no such file")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower for a file it cannot read
        raise WeightsError(f"{path}: not a tokenizer that can be read: {error}") from error


def _read_settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WeightsError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(settings, dict):
        raise WeightsError(f"{path}: expected a JSON object, got {type(settings).__name__}")
    return settings


def _find_template(folder: Path, settings: dict[str, Any]) -> str | None:
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        return own_file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # several by name; "default" is the one for plain chat
        by_name = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = by_name.get("default")
    return template
