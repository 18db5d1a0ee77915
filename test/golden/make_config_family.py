# SPDX-License-Identifier: Apache-2.0
"""Write ``config_family.json`` beside this file: what transformers makes of each folder of the family.

Run once, by hand, where torch and transformers are installed (made with torch 2.13 and transformers 5.24)::

    python test/golden/make_config_family.py

The cases: each value of each key on its own, each change of the tensors, and random combinations. Kept of
each is a digest of the logits, or null where transformers does not load it.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from config_family import BASES, SIZES, TENSORS, VALUES, Case, digest, transformers_logits, write_folder

COMBINATIONS = 500


def single_changes() -> list[Case]:
    cases = []
    for base in BASES:
        cases += [case(base, {key: value}) for key, values in VALUES.items() for value in values]
        cases += [case(base, {}, [change]) for change in TENSORS]
        cases += [case(base, {"tie_word_embeddings": False}, [change, "other head"]) for change in TENSORS]
        cases += [case(base, config, [], sizes) for sizes in SIZES for config in ({}, sizes)]
    return cases


def combinations(count: int) -> list[Case]:
    """Two to four keys, often those of the rotation; at times other tensors, which may fit or not."""
    choose = random.Random(0)
    cases = []
    for _ in range(count):
        keys = choose.sample(sorted(VALUES), choose.randint(1, 3)) + choose.sample(
            ["rope_parameters", "rope_scaling", "rope_theta", "tie_word_embeddings"], 1
        )
        sizes = choose.choice(SIZES) if choose.random() < 0.3 else {}
        tensors = choose.sample(TENSORS, 1) if choose.random() < 0.3 else []
        config = {**sizes, **{key: choose.choice(VALUES[key]) for key in keys}}
        cases.append(case(choose.choice(sorted(BASES)), config, tensors, sizes))
    return cases


def case(base: str, config: dict, tensors: list[str] | None = None, sizes: dict | None = None) -> Case:
    return {"base": base, "config": config, "tensors": tensors or [], "sizes": sizes or {}}


def main() -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for index, entry in enumerate(single_changes() + combinations(COMBINATIONS)):
            path = Path(folder, str(index))
            write_folder(path, entry)
            logits = transformers_logits(path)
            lines.append(json.dumps({**entry, "logits": None if logits is None else digest(logits)}))
    target = Path(__file__).with_name("config_family.json")
    target.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(len(lines), "cases,", target.stat().st_size // 1000, "kB")


if __name__ == "__main__":
    main()
