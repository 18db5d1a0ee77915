# SPDX-License-Identifier: Apache-2.0
"""Tokenizer folders made on the spot, and the ids that transformers and this package make of them."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from vla_edge_ros.model.chat_tokenizer import ChatTokenizer

INSTRUCTION = "open the <left> drawer & say 'ok'"
TURN = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}\n{% endfor %}"
ANSWER = "{% if add_generation_prompt %}[assistant]{% endif %}"
PARTS = (
    "{% for m in messages %}{% for part in m['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
)


TEMPLATES = {
    "plain": TURN + ANSWER,
    "generation block": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% endfor %}",
    "variables around a generation block": (
        "{% set kind = 'outer' %}{% for m in messages %}{%- generation -%}\n{% set kind = 'inner' %}"
        "{{ kind }} {{ m.content }} {{ loop.index }}\n{%- endgeneration -%}{{ kind }}{% endfor %}"
    ),
    "break": "{% for m in messages + messages %}{{ m.content }}{% break %}{% endfor %}" + ANSWER,
    "continue": "{% for i in range(4) %}{% if i % 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}" + TURN,
    "time": "{{ strftime_now('today, %d') }}" + TURN,
    "tojson": "{{ messages | tojson }}{{ messages | tojson(indent=2) }}" + TURN,
    "tojson of other letters": "{{ 'Öffne <b>' | tojson }}{{ 'Ö' | tojson(ensure_ascii=True) }}" + TURN,
    "begin and end": "{{ bos_token }}" + TURN + "{{ eos_token }}",
    "tokens that may be undefined": (
        "{% if bos_token is defined %}{{ bos_token }}{% endif %}"
        "{% if pad_token is defined %}pad{{ pad_token }}{% endif %}{{ image_token }}" + TURN
    ),
    "tools and documents": "{% if tools is none and documents is none %}none{% endif %}" + TURN,
    "namespace": "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}"
    "{{ ns.n }}{{ dict(a=1) }}" + TURN,
    "trimmed blocks": "  {% for m in messages %}\n  {{ m.content | trim }}\n  {% endfor %}\n" + ANSWER,
    "macro": "{% macro say(m) %}<{{ m.content }}>{% endmacro %}{{ say(messages[-1]) }}",
    "system by default": "{% if messages[0].role != 'system' %}[system]help{% endif %}" + TURN,
    "text or parts": "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
    "{{ m.content[0].text }}{% endif %}{% endfor %}",
}


def write_tokenizer(folder, **state):
    """Byte level, 256 ids; ``<s>``, ``</s>`` and ``[user]`` above them; with whatever state is given."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate(alphabet)}
    merges = [(a, b) for a in "aeiopnrst" for b in "aeiopnrst"]
    vocabulary |= {a + b: 256 + i for i, (a, b) in enumerate(merges)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, dropout=state.get("dropout")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<s>", "</s>", "[user]"])
    identity = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", identity)]
    )
    if "truncation" in state:
        tokenizer.enable_truncation(**state["truncation"])
    if "padding" in state:
        tokenizer.enable_padding(**state["padding"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def write_json(folder, name, values):
    (folder / name).write_text(json.dumps(values))


def transformers_ids(folder, content=INSTRUCTION, template=True):
    reader = pytest.importorskip("transformers").PreTrainedTokenizerFast
    tokenizer = reader.from_pretrained(folder)
    if not template:
        return tokenizer(content)["input_ids"]
    messages = [{"role": "user", "content": content}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def our_ids(folder, instruction=INSTRUCTION):
    return ChatTokenizer(folder).encode(instruction)


STATES = {
    "cut at 8": {"truncation": {"max_length": 8}},
    "cut on the left": {"truncation": {"max_length": 5, "direction": "left"}},
    "filled to 128": {"padding": {"length": 128, "pad_token": "</s>"}},
    "filled to a multiple": {"padding": {"pad_to_multiple_of": 64}},
    "both": {"truncation": {"max_length": 9}, "padding": {"length": 16, "direction": "left"}},
}
