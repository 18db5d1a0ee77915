# SPDX-License-Identifier: Apache-2.0
"""Tokenizer folders as people have them: the same ids as transformers' own reader gives, or a refusal.

The judge is ``PreTrainedTokenizerFast``, which needs no torch.
"""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizer_folders import (
    ANSWER,
    INSTRUCTION,
    PARTS,
    STATES,
    TEMPLATES,
    TURN,
    our_ids,
    transformers_ids,
    write_json,
    write_tokenizer,
)

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model import chat_template
from vla_edge_ros.model.chat_tokenizer import ChatTokenizer


@pytest.fixture
def folder(tmp_path):
    return write_tokenizer(tmp_path)


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("template", ["with", "without"])
def test_saved_truncation_and_padding_change_nothing(tmp_path, state, template):
    clean = write_tokenizer(tmp_path)
    if template == "with":
        write_json(tmp_path, "tokenizer_config.json", {"chat_template": TEMPLATES["plain"]})
    wanted = our_ids(clean)
    assert len(wanted) > 12
    write_tokenizer(tmp_path, **state)
    assert our_ids(tmp_path) == wanted == transformers_ids(tmp_path, template=template == "with")


def test_saved_dropout_does_not_make_ids_random(tmp_path):
    clean = our_ids(write_tokenizer(tmp_path))
    write_tokenizer(tmp_path, dropout=0.9)
    tokenizer = ChatTokenizer(tmp_path)
    assert all(tokenizer.encode(INSTRUCTION) == clean for _ in range(20))


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_gives_the_ids_of_transformers(folder, name):
    settings = {"chat_template": TEMPLATES[name], "bos_token": "<s>", "image_token": "[user]"}
    if name == "begin and end":
        settings["eos_token"] = {"__type": "AddedToken", "content": "</s>"}
    write_json(folder, "tokenizer_config.json", settings)
    ids = our_ids(folder)
    assert ids == transformers_ids(folder) and len(ids) > 20


def test_time_in_a_template_is_now(folder, monkeypatch):
    class Noon(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2024, 2, 29, 12)

    monkeypatch.setattr(chat_template, "datetime", Noon)
    template = chat_template.ChatTemplate(folder, "{{ strftime_now('%d %b %Y') }}" + TURN, {})
    assert template.render("go").startswith("29 Feb 2024[user]go")


def test_template_that_reads_parts_gets_parts(folder):
    write_json(folder, "tokenizer_config.json", {"chat_template": PARTS})
    assert our_ids(folder) == transformers_ids(folder, [{"type": "text", "text": INSTRUCTION}])


@pytest.mark.parametrize(
    "template",
    [
        "",
        "{{ bos_token }}",
        "{{ messages[0].role }}",
        "{{ messages[0].content[:3] }}",
        "{{ messages[0].content | upper }}",
    ],
)
def test_template_that_loses_the_instruction_is_refused(folder, template):
    write_json(folder, "tokenizer_config.json", {"chat_template": template})
    with pytest.raises(WeightsError, match="leaves the instruction out"):
        our_ids(folder)


def test_instruction_that_a_template_changes_is_refused_and_others_are_not(folder):
    """Some templates take what stands before a mark for the model's thoughts, and drop it."""
    write_json(folder, "tokenizer_config.json", {"chat_template": "{{ messages[0].content.split('|')[-1] }}"})
    assert our_ids(folder, "go on")
    with pytest.raises(WeightsError, match="must write the instruction as it is"):
        our_ids(folder, "go|on")


NAMED = {
    "roles only": {
        "special_tokens_map.json": {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": True}}
    },
    "added only": {"added_tokens.json": {"[assistant]": 340}},
    "added and role": {
        "added_tokens.json": {"[assistant]": 340, "[pad]": 341},
        "special_tokens_map.json": {"pad_token": "[pad]", "additional_special_tokens": ["[assistant]"]},
    },
    "role of a new token": {"special_tokens_map.json": {"bos_token": "[begin]"}},
    "decoder wins over the map": {
        "tokenizer_config.json": {
            "added_tokens_decoder": {"340": {"content": "[assistant]", "special": True}}
        },
        "special_tokens_map.json": {"bos_token": "<s>"},
    },
    "extra": {"tokenizer_config.json": {"extra_special_tokens": ["[assistant]"]}},
    "extra by name": {"tokenizer_config.json": {"extra_special_tokens": {"image_token": "[assistant]"}}},
    "additional": {"tokenizer_config.json": {"additional_special_tokens": ["[assistant]", "[user]"]}},
    "split": {"tokenizer_config.json": {"split_special_tokens": True, "bos_token": "<s>"}},
}


SHOWS_TOKENS = (
    "{% if bos_token is defined %}{{ bos_token }}{% endif %}"
    "{% if pad_token is defined %}{{ pad_token }}{% endif %}"
    "{{ image_token }} {{ eos_token }}" + TURN + ANSWER + "[pad]"
)


@pytest.mark.parametrize("files", NAMED.values(), ids=NAMED)
def test_tokens_that_other_files_name_are_known(folder, files):
    (folder / "chat_template.jinja").write_text(SHOWS_TOKENS)
    write_json(folder, "tokenizer_config.json", {})
    for name, values in files.items():
        write_json(folder, name, values)
    assert our_ids(folder) == transformers_ids(folder)


def test_added_token_at_another_id_than_declared_is_refused(folder):
    write_json(folder, "added_tokens.json", {"[assistant]": 400})
    with pytest.raises(WeightsError, match=r"'\[assistant\]' must have id 400 as declared.*340"):
        our_ids(folder)


@pytest.mark.parametrize("template", [[{"name": "rag", "template": TURN}], {"rag": TURN}, []])
def test_templates_without_a_default_are_refused_by_name(folder, template):
    write_json(folder, "tokenizer_config.json", {"chat_template": template})
    with pytest.raises(WeightsError, match=r"named default, got only (rag|an empty list)"):
        our_ids(folder)


@pytest.mark.parametrize("template", [7, [7], [{"name": "default"}], {"default": 3}, True])
def test_templates_of_another_type_are_refused(folder, template):
    write_json(folder, "tokenizer_config.json", {"chat_template": template})
    with pytest.raises(WeightsError, match="chat_template must be text or templates by name"):
        our_ids(folder)


def test_template_files_win_over_settings(folder):
    write_json(folder, "tokenizer_config.json", {"chat_template": "settings"})
    more = folder / "additional_chat_templates"
    more.mkdir()
    (more / "rag.jinja").write_text("rag")
    with pytest.raises(WeightsError, match="got only rag"):
        our_ids(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATES["plain"])
    assert our_ids(folder) == transformers_ids(folder)


def test_replaced_folder_is_read_anew(folder):
    first = ChatTokenizer.of_folder(str(folder))
    assert ChatTokenizer.of_folder(str(folder)) is first
    write_json(folder, "tokenizer_config.json", {"chat_template": TEMPLATES["plain"]})
    assert ChatTokenizer.of_folder(str(folder)).encode("go") != first.encode("go")


PIECES = st.lists(
    st.sampled_from(
        [
            TURN,
            ANSWER,
            PARTS,
            *TEMPLATES.values(),
            "{{ bos_token }}",
            "{% if pad_token %}x{% endif %}",
            "\n  text ",
        ]
    ),
    min_size=1,
    max_size=3,
).map("".join)


FILES = st.lists(st.sampled_from([files for files in NAMED.values()]), max_size=2)


@given(
    template=PIECES, files=FILES, state=st.sampled_from([{}, *STATES.values()]), content=st.text(max_size=20)
)
@settings(max_examples=25)
@example(  # an additional special token that added_tokens.json has too is split
    template=TEMPLATES["plain"],
    files=[
        {
            "added_tokens.json": {"[assistant]": 340},
            "special_tokens_map.json": {"additional_special_tokens": ["[assistant]"]},
            "tokenizer_config.json": {"split_special_tokens": True},
        }
    ],
    state={},
    content="go",
)
def test_any_folder_of_these_parts_gives_the_ids_of_transformers(
    tmp_path_factory, template, files, state, content
):
    pytest.importorskip("transformers")
    folder = write_tokenizer(tmp_path_factory.mktemp("folder"), **state)
    (folder / "chat_template.jinja").write_text(template)
    write_json(folder, "tokenizer_config.json", {})
    for name, values in {name: values for part in files for name, values in part.items()}.items():
        write_json(folder, name, values)
    try:
        tokenizer = ChatTokenizer(folder)
        ids = tokenizer.encode(content)
    except WeightsError:
        return
    forms = [content, [{"type": "text", "text": content}]]
    assert ids == transformers_ids(folder, forms[tokenizer._template.in_parts])


@given(
    data=st.binary(max_size=40),
    at=st.integers(0, 20_000),
    name=st.sampled_from(["tokenizer.json", "tokenizer_config.json"]),
)
@settings(max_examples=100)
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path_factory, data, at, name):
    folder = write_tokenizer(tmp_path_factory.mktemp("damaged"))
    write_json(folder, "tokenizer_config.json", {"bos_token": "<s>", "chat_template": TEMPLATES["plain"]})
    content = (folder / name).read_bytes()
    at %= len(content)
    (folder / name).write_bytes(content[:at] + data + content[at + len(data) :])
    try:
        assert our_ids(folder)
    except WeightsError as error:
        assert str(folder) in str(error) and "\n" not in str(error)
