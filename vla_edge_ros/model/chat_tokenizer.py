# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's tokenizer and chat template as transformers uses them, without transformers.

Jinja is imported only where there is a template. A folder without one gets the instruction's plain tokens,
with whatever special tokens its tokenizer adds.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from vla_edge_ros.errors import ConfigError, WeightsError
from vla_edge_ros.model.model_file import likely_cause, with_cause
from vla_edge_ros.model.tokenizer_files import TokenizerFiles

if TYPE_CHECKING:
    from vla_edge_ros.model.chat_template import ChatTemplate

TOKENIZER_FILE = "tokenizer.json"


class ChatTokenizer:
    """Turns an instruction into the token ids of one user turn, up to where the model would answer."""

    def __init__(self, folder: Path):
        self._tokenizer = _read_tokenizer(folder / TOKENIZER_FILE)
        padding = self._tokenizer.padding
        files = TokenizerFiles(folder, padding["pad_token"] if padding else None)
        _forget_state(self._tokenizer)
        self._special_tokens = files.special_tokens()
        self._tokenizer.encode_special_tokens = files.splits_special_tokens
        self._add_tokens(files)
        source = files.chat_template()
        self._template = None if source is None else _compile(folder, source, self._special_tokens)

    @staticmethod
    def of_folder(folder: str) -> ChatTokenizer:
        """The folder's tokenizer, read once: a changed instruction should not wait for megabytes of JSON."""
        return _tokenizer_of(folder, TokenizerFiles.versions(Path(folder)))

    @property
    def padding_id(self) -> int:
        """The beginning-of-text token where there is one, else the end-of-text token, else id 0."""
        for role in ("bos_token", "eos_token"):
            identity = self._tokenizer.token_to_id(self._special_tokens.get(role, ""))
            if identity is not None:
                return identity
        return 0

    @property
    def begin_id(self) -> int | None:
        """The beginning-of-text token, if the checkpoint has one."""
        identity: int | None = self._tokenizer.token_to_id(self._special_tokens.get("bos_token", ""))
        return identity

    @property
    def last_id(self) -> int:
        """The highest id that any token has."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=0)

    def encode(self, instruction: str) -> list[int]:
        if self._template is None:
            return self._tokenizer.encode(instruction).ids
        # The template writes the special tokens itself.
        return self._tokenizer.encode(self._template.render(instruction), add_special_tokens=False).ids

    def _add_tokens(self, files: TokenizerFiles) -> None:
        """Those that only the files beside tokenizer.json name, at the ids that they give."""
        known = {token.content for token in self._tokenizer.get_added_tokens_decoder().values()}
        for token, identity in files.added_tokens():
            if token.content not in known:
                self._tokenizer.add_tokens([token])
                known.add(token.content)
            found = self._tokenizer.token_to_id(token.content)
            if identity is not None and found != identity:
                raise WeightsError(
                    f"{files.folder}: token {token.content!r} must have id {identity} as declared, "
                    f"{TOKENIZER_FILE} gives it {found}"
                )


@lru_cache(maxsize=1)
def _tokenizer_of(folder: str, versions: tuple[tuple[str, int], ...]) -> ChatTokenizer:
    """``versions`` make a folder that was replaced meanwhile another one."""
    return ChatTokenizer(Path(folder))


def _read_tokenizer(path: Path) -> Tokenizer:
    if not path.is_file():
        has_slow = path.with_name("tokenizer.model").exists()
        hint = "; AutoTokenizer's save_pretrained makes it of the tokenizer.model there" if has_slow else ""
        raise WeightsError(f"{path}: expected the checkpoint's tokenizer: {likely_cause(path)}{hint}")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower for a file it cannot read
        raise WeightsError(with_cause(f"{path}: not a tokenizer that can be read: {error}", path)) from error


def _forget_state(tokenizer: Tokenizer) -> None:
    """Switch off what training or a pipeline left in the file."""
    # Meant for batches: they would cut an instruction, or fill it up.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # Meant for training: the same instruction would give other tokens each time.
    if getattr(tokenizer.model, "dropout", None):
        tokenizer.model.dropout = None


def _compile(folder: Path, source: str, special_tokens: dict[str, str]) -> ChatTemplate:
    try:
        from vla_edge_ros.model.chat_template import ChatTemplate
    except ImportError as error:
        raise ConfigError(
            f"model.path: the chat template of {folder} needs the package Jinja2, got {error}"
        ) from error
    return ChatTemplate(folder, source, special_tokens)
