# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's chat template, rendered with what transformers gives templates: names, filters, tags.

The template is the checkpoint's code, so it runs in Jinja's sandbox. Some templates read a message's content
as text, others as a list of parts; which form carries an instruction is tried out, and a template that
carries it in neither is refused: the robot would be told nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.ext import loopcontrols as LoopControls
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from vla_edge_ros.errors import WeightsError

# Words that no template writes itself.
_PROBE = "seven zebras juggle quartz"


class ChatTemplate:
    """``render`` gives the text of one user turn, up to where the model would answer.

    ``folder`` names the checkpoint in errors; ``special_tokens`` are variables of the template. ``in_parts``:
    whether the template reads content as a list of parts.
    """

    def __init__(self, folder: Path, source: str, special_tokens: Mapping[str, str]):
        self._folder = folder
        self._special_tokens = dict(special_tokens)
        try:
            self._template = _environment().from_string(source)
        except Exception as error:  # a template is the checkpoint's code; compiling it may raise anything
            raise _failure(folder, error) from error
        self.in_parts = self._reads_parts()

    def render(self, instruction: str) -> str:
        text = self._render(instruction, self.in_parts)
        if instruction.strip() not in text:
            raise WeightsError(
                f"{self._folder}: the chat template must write the instruction as it is, got {text[-200:]!r} "
                f"for {instruction!r}"
            )
        return text

    def _reads_parts(self) -> bool:
        """Whether content must be a list of parts; text is tried first, as transformers' users give it."""
        failures = []
        for in_parts in (False, True):
            try:
                text = self._render(_PROBE, in_parts)
                if _PROBE in text and repr(_PROBE) not in text:  # a list that is written as such is not read
                    return in_parts
            except WeightsError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        raise WeightsError(
            f"{self._folder}: the chat template leaves the instruction out, as text and in parts"
        )

    def _render(self, instruction: str, in_parts: bool) -> str:
        content = [{"type": "text", "text": instruction}] if in_parts else instruction
        try:
            return self._template.render(
                messages=[{"role": "user", "content": content}],
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self._special_tokens,
            )
        except Exception as error:  # as above
            raise _failure(self._folder, error) from error


def _failure(folder: Path, error: Exception) -> WeightsError:
    """In one line: Jinja's own texts have several."""
    return WeightsError(f"{folder}: the chat template failed: {' '.join(str(error).split())}")


class GenerationTag(Extension):
    """``{% generation %} ... {% endgeneration %}`` marks the model's words: here, what is inside."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, LoopControls]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter writes <, > and & as escapes for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(text: str) -> NoReturn:
    raise TemplateError(text)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
