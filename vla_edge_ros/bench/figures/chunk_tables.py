# SPDX-License-Identifier: Apache-2.0
"""Tables and single figures of one chunk on the GPU (``chunk-h200.json`` and its neighbours)."""

from __future__ import annotations

from vla_edge_ros.bench.figures.data import Row, count, pair, row, rows, short, table

ENGINE = "vla_edge_ros"
PEERS = {
    "torch compiled, cuda graph": "torch.compile, CUDA graph, bf16",
    "torch static, cuda graph": "PyTorch, static cache, CUDA graph, bf16",
    "hugging face eager": "Hugging Face, eager, bf16",
}
_KINDS = (
    ("bf16", "off", "persistent", "`engine.draft: none`, bf16"),
    ("bf16", "off", "kernels", "the same, a decode step as a graph of kernels"),
    ("int8", "off", "persistent", "`engine.draft: none`, int8"),
    ("int4", "off", "persistent", "`engine.draft: none`, int4"),
    (
        "bf16",
        "rejected",
        "persistent",
        "`engine.draft: last_action` (default), bf16, all draft tokens rejected",
    ),
    ("bf16", "accepted", "persistent", "the same, all draft tokens accepted"),
)


def engine_row(weights: str = "bf16", draft: str = "off", step: str = "persistent") -> Row:
    """This engine's row; ``draft``: off, none, accepted or rejected (all draft tokens)."""
    return row("chunk-h200", engine=ENGINE, weights=weights, draft=draft, decode_step=step)


def chunk_table() -> str:
    """One chunk, this engine and PyTorch."""
    lines: list[tuple[str, ...]] = []
    for weights, draft, step, name in _KINDS:
        found = engine_row(weights, draft, step)
        memory = found.get("device_peak_mb")
        decode = pair(found["decode_step_ms"]) if "decode_step_ms" in found else "none"
        size = f"{memory / 1000:.1f} GB" if memory else ""
        lines.append((name, pair(found["prefill_ms"]), decode, pair(found["chunk_ms"]), size))
    for engine, name in PEERS.items():
        found = row("chunk-h200", engine=engine)
        times = [pair(found[key]) for key in ("prefill_ms", "decode_step_ms", "chunk_ms")]
        lines.append((name, *times, ""))
    return table(("", "prefill, ms", "decode step, ms", "chunk, ms", "device memory"), lines)


def chunk_ms(weights: str = "bf16", draft: str = "off", step: str = "persistent") -> float:
    """Median of a whole chunk."""
    return float(engine_row(weights, draft, step)["chunk_ms"]["median"])


def parallel_chunk_ms() -> str:
    """Median of a chunk whose tokens are decoded in one pass."""
    return short(float(row("chunk-parallel-h200", decoding="parallel")["chunk_ms"]["median"]))


def saved(weights: str) -> str:
    """How much of a bf16 chunk these weights save, without drafts."""
    return f"{100 * (1 - chunk_ms(weights) / chunk_ms()):.0f} %"


def drafts_add_ms() -> str:
    """How much longer a prefill is with draft tokens than in an engine without drafts."""
    with_drafts, without = engine_row(draft="accepted"), engine_row()
    return short(float(with_drafts["prefill_ms"]["median"]) - float(without["prefill_ms"]["median"]))


def rejected_factor(weights: str) -> str:
    """A chunk whose draft tokens are all rejected, as a multiple of one in an engine without drafts."""
    return f"{chunk_ms(weights, 'rejected') / chunk_ms(weights):.2f}"


def median(key: str, weights: str = "bf16", draft: str = "off", step: str = "persistent") -> str:
    """The median of ``key`` of this engine's row."""
    return short(float(engine_row(weights, draft, step)[key]["median"]))


def soaked_chunks() -> str:
    return count(sum(each["chunks"] for each in rows("chunk-soak")))


_PHASES = (
    ("norm and QKV", ("norm before QKV", "QKV multiplied", "QKV stored"), "gate: down"),
    ("attention", ("queries loaded", "scores", "values", "key warps merged"), "gate: QKV"),
    ("splits merged, output", ("splits merged", "output multiplied", "output stored"), "gate: attention"),
    ("norm and gate/up", ("norm before gate/up", "gate/up multiplied", "gate/up stored"), "gate: output"),
    ("down", ("down multiplied", "down stored"), "gate: gate/up"),
)


def phase_table() -> str:
    """Cycles of each phase of a persistent decode step, and of the wait at the grid barrier before it."""
    formats = ("bf16", "int8", "int4")

    def cycles(weights: str, until: str) -> int:
        found = row("decode-phases-h200", weights=weights, blocks="attending", until=until)
        return int(found["cycles"])

    def line(name: str, points: tuple[str, ...], gate: str) -> tuple[str, str, str]:
        work = " / ".join(count(sum(cycles(each, point) for point in points)) for each in formats)
        return name, work, " / ".join(count(cycles(each, gate)) for each in formats)

    layer = " / ".join(count(cycles(each, "next layer")) for each in formats)
    lines = [line(*phase) for phase in _PHASES]
    return table(
        ("phase", "work, cycles", "wait at the grid barrier before it, cycles"),
        [*lines, ("layer", layer, "")],
    )


_COMPUTED = {
    (ENGINE, "original"): ("engine", "original"),
    ("float32 of the same values", "original"): ("float32", "original"),
    (ENGINE, "the same values"): ("engine", "float32, the same values"),
}


def accuracy_table() -> str:
    """What each weight format costs, and what the kernels add."""
    lines = []
    for found in rows("weight-accuracy-h200"):
        names = _COMPUTED.get((found["computed_by"], found["against"]))
        is_bf16 = found["weights"] == "bf16"
        if names and found["kv"] == "bf16" and (not is_bf16 or names == ("engine", "original")):
            lines.append((found["model"], found["weights"], *names, *_accuracy(found)))
    return table(("model", "weights", "computed by", "compared with", *_ACCURACY), lines)


_ACCURACY = ("least cosine", "relative error", "largest difference", "top-1", "margin", "largest logit loss")


def _accuracy(found: Row) -> tuple[str, ...]:
    return (
        f"{found['least_cosine']:.4f}",
        f"{found['relative_error']:.4f}",
        f"{found['most_difference']:.2f}",
        f"{100 * found['top_1_agreement']:.0f} %",
        f"{found['median_margin']:.3f}",
        f"{found['most_given_up']:.3f}",
    )


def kv_accuracy_table() -> str:
    """The same for int8 keys and values, against float32 on the original weights."""
    lines = [
        (found["model"], "engine" if found["computed_by"] == ENGINE else found["computed_by"])
        + _accuracy(found)
        for found in rows("weight-accuracy-h200")
        if found["kv"] != "bf16" and found["against"] == "original"
    ]
    return table(("model", "computed by", *_ACCURACY), lines)
