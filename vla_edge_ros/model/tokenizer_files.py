# SPDX-License-Identifier: Apache-2.0
"""What the files beside ``tokenizer.json`` say: special tokens by role, added tokens, the chat template.

Read as transformers reads them: ``special_tokens_map.json`` and ``added_tokens.json`` count only where
``tokenizer_config.json`` has no ``added_tokens_decoder``, and a template's own file wins over an entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.model_file import likely_cause, read_json_object

SETTINGS_FILE = "tokenizer_config.json"
ROLES_FILE = "special_tokens_map.json"
ADDED_FILE = "added_tokens.json"
TEMPLATE_FILE = "chat_template.jinja"
TEMPLATE_FOLDER = "additional_chat_templates"
_TOKEN_KEYS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
_ROLES = tuple(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_EXTRA_KEYS = ("extra_special_tokens", "additional_special_tokens")


class TokenizerFiles:
    """The folder's settings; ``WeightsError`` names the file that cannot be read.

    ``saved_pad``: the padding token that is saved in tokenizer.json, the role's default.
    """

    def __init__(self, folder: Path, saved_pad: str | None = None):
        self.folder = folder
        self._saved_pad = saved_pad
        self._settings = _read_optional(folder / SETTINGS_FILE)
        self._declared = self._settings.get("added_tokens_decoder")
        if self._declared is None:
            self._settings.update(_read_optional(folder / ROLES_FILE))

    @property
    def splits_special_tokens(self) -> bool:
        return self._settings.get("split_special_tokens") is True

    @staticmethod
    def versions(folder: Path) -> tuple[tuple[str, int], ...]:
        """Names and times of change of the files that matter: other ones mean another tokenizer."""
        paths = (*folder.glob("*.json"), *folder.glob("*.jinja"), *folder.glob(f"{TEMPLATE_FOLDER}/*.jinja"))
        return tuple(sorted((str(path), path.stat().st_mtime_ns) for path in paths if path.is_file()))

    def special_tokens(self) -> dict[str, str]:
        """Role -> text, as ``bos_token`` -> ``<s>``; only those that the folder names."""
        return {role: token.content for role, token in self._roles().items()}

    def added_tokens(self) -> Iterator[tuple[AddedToken, int | None]]:
        """Tokens that must be one id each, with the id where a file gives it, in the order of ids."""
        roles = self._roles()
        extra = [_token(self._where(), token) for key in _EXTRA_KEYS for token in self._extra(key)]
        if self._declared is not None:
            yield from self._declared_tokens()
        else:
            special = {token.content for token in (*roles.values(), *extra)}
            yield from self._tokens_of_added_file(special)
        for token in (*roles.values(), *extra):
            yield token, None

    def chat_template(self) -> str | None:
        """The template for plain chat, or None where the folder has none at all."""
        templates = self._template_files()
        if not templates:
            setting = self._settings.get("chat_template")
            if setting is None or isinstance(setting, str):
                return setting
            templates = _by_name(self._where(), setting)
        if "default" not in templates:
            raise WeightsError(
                f"{self.folder}: expected a chat template that is named default, got only "
                f"{', '.join(sorted(templates)) or 'an empty list'}: which one is meant?"
            )
        return templates["default"]

    def _where(self) -> Path:
        return self.folder / SETTINGS_FILE

    def _roles(self) -> dict[str, AddedToken]:
        named = {key: value for key, value in self._settings.items() if key.endswith("_token")}
        extra = self._settings.get("extra_special_tokens")
        if isinstance(extra, dict):
            named.update(extra)
        named.setdefault("pad_token", self._saved_pad)
        # New tokens get ids in this order. Other keys end alike, as add_bos_token, which is a switch.
        others = [key for key, value in named.items() if key not in _ROLES and isinstance(value, str | dict)]
        return {
            role: _token(self._where(), named[role])
            for role in (*_ROLES, *others)
            if named.get(role) is not None
        }

    def _extra(self, key: str) -> list[Any]:
        value = self._settings.get(key)
        return value if isinstance(value, list) else []

    def _declared_tokens(self) -> Iterator[tuple[AddedToken, int]]:
        if not isinstance(self._declared, dict):
            raise WeightsError(
                f"{self._where()}: added_tokens_decoder must be an object, got {self._declared!r}"
            )
        for identity, value in sorted(self._declared.items(), key=lambda item: (len(item[0]), item[0])):
            if not identity.isdecimal():
                raise WeightsError(
                    f"{self._where()}: added_tokens_decoder must have token ids, got {identity!r}"
                )
            yield _token(self._where(), value), int(identity)

    def _tokens_of_added_file(self, special: set[str]) -> Iterator[tuple[AddedToken, int]]:
        path = self.folder / ADDED_FILE
        added = _read_optional(path)
        for text, identity in added.items():
            if isinstance(identity, bool) or not isinstance(identity, int):
                raise WeightsError(f"{path}: the id of {text!r} must be an integer, got {identity!r}")
        for text, identity in sorted(added.items(), key=lambda item: item[1]):
            is_special = text in special
            yield AddedToken(text, normalized=not is_special, special=is_special), identity

    def _template_files(self) -> dict[str, str]:
        paths = {path.stem: path for path in sorted((self.folder / TEMPLATE_FOLDER).glob("*.jinja"))}
        own_file = self.folder / TEMPLATE_FILE
        if own_file.exists() or own_file.is_symlink():
            paths.setdefault("default", own_file)
        return {name: _read_text(path) for name, path in paths.items()}


def _by_name(where: Path, setting: Any) -> dict[str, str]:
    """A list of ``{"name": ..., "template": ...}``, or an object of templates by name."""
    if isinstance(setting, list) and all(isinstance(entry, dict) for entry in setting):
        setting = {entry.get("name"): entry.get("template") for entry in setting}
    if not isinstance(setting, dict) or not all(
        isinstance(text, str) for pair in setting.items() for text in pair
    ):
        raise WeightsError(f"{where}: chat_template must be text or templates by name, got {setting!r:.200}")
    return setting


def _token(where: Path, value: Any) -> AddedToken:
    if isinstance(value, str):
        return AddedToken(value, normalized=False, special=True)
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        try:
            return AddedToken(**{key: value[key] for key in _TOKEN_KEYS if key in value})
        except TypeError as error:
            raise WeightsError(f"{where}: expected a token's settings, got {value!r}: {error}") from error
    raise WeightsError(f"{where}: a token must be text or an object with content, got {value!r:.200}")


def _read_optional(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.exists() or path.is_symlink() else {}


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: expected text: {likely_cause(path) or error}") from error
