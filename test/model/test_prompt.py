# SPDX-License-Identifier: Apache-2.0
"""Instructions as token ids: the stand-in, and a small checkpoint's tokenizer and chat template."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from vla_edge_ros.config import ModelSource, PromptConfig, VlaConfig
from vla_edge_ros.errors import ConfigError, InstructionError, WeightsError
from vla_edge_ros.model.prompt import prompt_tokens


def pinned(instruction, config):
    """The ids in front of the frames; with the default place of the text there are none behind them."""
    before, behind = prompt_tokens(instruction, config)
    assert behind == ()
    return before


STAND_IN = VlaConfig(model=ModelSource(preset="tiny"))
CHATML = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture
def folder(tmp_path):
    """A byte-level tokenizer of 256 bytes and four special tokens, and a config.json that fits it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<s>", "</s>"])  # ids 256 to 259
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 258)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    sizes = {
        "model_type": "qwen2",
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 600,
    }
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    return tmp_path


def settings(folder, **values):
    (folder / "tokenizer_config.json").write_text(json.dumps(values))


def ids_of(folder, instruction):
    return pinned(instruction, VlaConfig(model=ModelSource(path=str(folder)))).tolist()


def text_of(folder, ids):
    return Tokenizer.from_file(str(folder / "tokenizer.json")).decode(ids, skip_special_tokens=False)


def test_stand_in_is_the_bytes_of_the_instruction():
    ids = pinned("Öffne it", STAND_IN)
    assert ids.dtype == np.int64 and bytes(ids.tolist()) == "Öffne it".encode()


@given(st.text(max_size=15))
def test_stand_in_stays_below_the_action_tokens_and_has_a_sink(instruction):
    ids = pinned(instruction, STAND_IN)
    assert len(ids) >= 4 and ids.min() >= 0 and ids.max() < 512 - 256


@pytest.mark.parametrize("instruction", ["", "a", "abc"])
def test_short_instruction_is_padded_in_front_to_four_tokens(instruction):
    assert pinned(instruction, STAND_IN).tolist() == [0] * (4 - len(instruction)) + list(instruction.encode())


def test_instruction_that_fills_the_pinned_slots_fits_and_one_more_byte_does_not():
    assert len(pinned("x" * 64, STAND_IN)) == 64
    with pytest.raises(InstructionError, match=r"65 tokens.*2 x 32 = 64"):
        pinned("x" * 65, STAND_IN)
    wider = VlaConfig(model=ModelSource(preset="tiny"), prompt=PromptConfig(max_pages=3))
    assert len(pinned("x" * 65, wider)) == 65


@pytest.mark.parametrize("place", ["string", "list", "file"])
def test_chat_template_is_found_in_every_place_and_rendered(folder, place):
    if place == "string":
        settings(folder, chat_template=CHATML)
    elif place == "list":
        settings(
            folder,
            chat_template=[{"name": "tool_use", "template": "x"}, {"name": "default", "template": CHATML}],
        )
    else:
        (folder / "chat_template.jinja").write_text(CHATML)
    ids = ids_of(folder, "open it")
    assert text_of(folder, ids) == "<|im_start|>user\nopen it<|im_end|>\n<|im_start|>assistant\n"
    assert ids[0] == 256 and ids.count(256) == 2 and ids.count(257) == 1 and 258 not in ids


def test_template_gets_the_special_tokens_by_name(folder):
    settings(
        folder,
        chat_template="{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
        bos_token="<s>",
        eos_token={"content": "</s>"},
    )
    ids = ids_of(folder, "go on")
    assert (ids[0], ids[-1], len(ids)) == (258, 259, 7)


def test_without_a_template_the_tokenizer_s_own_special_tokens_are_kept(folder):
    ids = ids_of(folder, "go on")
    assert ids[0] == 258 and text_of(folder, ids[1:]) == "go on"


def test_short_instruction_is_padded_with_the_beginning_of_text(folder):
    settings(folder, bos_token="<s>")
    assert ids_of(folder, "")[:3] == [258, 258, 258]


def test_template_that_refuses_is_a_weights_error_with_its_words(folder):
    settings(folder, chat_template="{{ raise_exception('no robots') }}")
    with pytest.raises(WeightsError, match="no robots"):
        ids_of(folder, "go")


@pytest.mark.parametrize(
    "template", ["{% for %}", "{{ ''.__class__.__mro__ }}", "{{ messages[9].content }}", "{{ 1 / 0 }}"]
)
def test_template_that_is_broken_or_leaves_its_sandbox_is_refused(folder, template):
    settings(folder, chat_template=template)
    with pytest.raises(WeightsError, match="chat template failed"):
        ids_of(folder, "go")


def test_template_without_jinja_says_which_package_is_missing(folder, monkeypatch):
    settings(folder, chat_template=CHATML)
    monkeypatch.delitem(sys.modules, "vla_edge_ros.model.chat_template", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ConfigError, match="Jinja2"):
        ids_of(folder, "go")


def test_missing_tokenizer_is_named(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(WeightsError, match=r"tokenizer\.json"):
        ids_of(folder, "go")


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_broken_file_is_named(folder, file, text):
    (folder / file).write_text(text)
    with pytest.raises(WeightsError, match=file):
        ids_of(folder, "go")


def test_tokenizer_larger_than_the_model_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 258}))
    with pytest.raises(InstructionError, match="258"):
        ids_of(folder, "go on")
