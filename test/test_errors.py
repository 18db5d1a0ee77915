# SPDX-License-Identifier: Apache-2.0
"""The text of an error: what it quotes comes from files that anybody wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.errors import ConfigError, EngineError, ImageError, SourceError, WeightsError


@pytest.mark.parametrize(
    "kind", [ConfigError, SourceError, WeightsError, lambda text: ImageError("data", text)]
)
@given(st.text())
def test_an_error_of_any_text_is_a_line_that_can_be_read(kind, text):
    shown = str(kind(f"{text} in {text * 200}"))
    assert shown.isprintable()
    assert len(shown) <= 10 * 1010  # each character may become an escape


@pytest.mark.parametrize("kind", [ConfigError, SourceError, WeightsError])
def test_a_long_value_keeps_its_beginning_and_its_end(kind):
    text = f"model.path: must be a name, got {list(range(10_000))} (in config.json)"
    assert len(str(kind(text))) <= 1010
    assert str(kind(text)).startswith("model.path: must be a name, got [0, 1") and text[-200:] in str(
        kind(text)
    )


def test_an_engines_table_keeps_its_lines():
    assert str(EngineError("needs more:\nweights 3 GB\nkeys 1 GB")).count("\n") == 2
