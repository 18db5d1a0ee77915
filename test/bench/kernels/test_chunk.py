# SPDX-License-Identifier: Apache-2.0
"""The chunk benchmark's rows, its PyTorch peer, and the times of single kernels."""

from __future__ import annotations

import pytest

pytest.importorskip("cupy")


def test_a_row_names_engine_head_slots_and_three_quantiles_of_each_time():
    from vla_edge_ros.bench.kernels.chunk import chunk_row

    row = chunk_row("some engine", "bf16", "action", "none", 4000, {"prefill_ms": [1.0, 2.0, 9.0]})
    assert row["engine"] == "some engine" and row["slots_used"] == 4000
    assert row["prefill_ms"] == {"median": 2.0, "p99": 9.0, "max": 9.0}


def test_the_static_peer_chooses_the_tokens_that_transformers_does(monkeypatch):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from vla_edge_ros.bench.kernels import torch_peers
    from vla_edge_ros.model.decoder_config import DecoderConfig

    monkeypatch.setattr(torch_peers, "DEVICE", "cpu")
    decoder = DecoderConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        vocab_size=300,
    )
    torch.manual_seed(0)
    model = torch_peers.empty_model(decoder, "cpu")
    static = torch_peers.StaticDecoder(model, decoder, past=20, new_tokens=12, head_first=44, compiled=False)
    cache = transformers.DynamicCache()
    for layer in range(3):
        cache.update(*(static.kv[layer, value, :, :, :20].clone() for value in (0, 1)), layer)

    def expected(embedded, first):
        positions = torch.arange(first, first + len(embedded))[None]
        out = model.model(inputs_embeds=embedded[None], past_key_values=cache, position_ids=positions)
        return (out.last_hidden_state[0, -1:] @ static.head.T).argmax(-1) + 44

    with torch.no_grad():
        vision = torch.randn(4, 128)
        token = static.forward(vision, torch.arange(20, 24))
        assert token == expected(vision, 20)
        for step in range(3):
            embedded = static.embedding[token]
            token = static.forward(embedded, torch.tensor([24 + step]))
            assert token == expected(embedded, 24 + step)


@pytest.mark.gpu
def test_kernel_rows_cover_every_pass_and_family(small_engine):
    from vla_edge_ros.bench.kernels.chunk import measure_engine
    from vla_edge_ros.bench.kernels.kernel_times import kernel_rows

    engine = small_engine(1024)
    times = measure_engine(engine, frames=20, repeats=3, seed=0)
    assert all(len(measured["chunk_ms"]) == 3 for measured in times.values())
    steps = {draft: len(measured["decode_step_ms"]) for draft, measured in times.items()}
    assert steps == {"none": 21, "accepted": 0, "rejected": 21}
    rows = kernel_rows(engine, 640, 1e12)
    families = {"qkv", "attention", "output", "gate_up", "down"}
    assert {(row["pass"], row["kernels"]) for row in rows} == {
        (name, family) for name in ("decode", "prefill", "drafted", "verify") for family in families
    }
    assert all(row["layer_us"] > 0 for row in rows)


def test_an_unknown_format_is_refused_with_those_there_are(capsys):
    from vla_edge_ros.bench.kernels.chunk import main

    with pytest.raises(SystemExit):
        main(["--weights", "bf16,fp8"])
    assert "expected some of bf16,int8,int4, got bf16,fp8" in capsys.readouterr().err
