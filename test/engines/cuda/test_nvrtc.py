# SPDX-License-Identifier: Apache-2.0
"""Every kernel compiles for every supported chip, without one; and the second start compiles nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("cupy", reason="CuPy brings the NVRTC bindings")
try:
    from cupy_backends.cuda.libs import nvrtc as library

    library.getVersion()
except (ImportError, RuntimeError) as error:
    pytest.skip(f"NVRTC cannot be loaded: {error}", allow_module_level=True)

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, FrameConfig, VlaConfig
from vla_edge_ros.engines.cuda.load import nvrtc, probe
from vla_edge_ros.engines.cuda.load.kernels import loading_sources, pass_sources
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.errors import KernelCompileError
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B, DecoderConfig

# Compute capability -> multiprocessors, shared memory a block and an SM, of one chip of that kind.
CHIPS = {
    80: (108, 166912, 167936),
    86: (82, 101376, 102400),
    87: (16, 166912, 167936),
    89: (128, 101376, 102400),
    90: (132, 232448, 233472),
    100: (148, 232448, 233472),
    120: (170, 101376, 102400),
}
# Integers differ from bfloat16 in plain C++ and one instruction of sm_80: three chips stand for the rest. And
# of keys and values in int8 a chip of each kind: with a graph of kernels only, and with a persistent one.
COMPILED = [
    *(("bf16", "int8" if chip == 100 else "bf16", chip) for chip in CHIPS),
    *(("int8", "bf16", chip) for chip in (87, 90, 120)),
    *(("int4", "int8" if chip == 87 else "bf16", chip) for chip in (87, 90, 120)),
]
ODD = DecoderConfig(
    hidden_size=192,
    intermediate_size=172,
    num_hidden_layers=2,
    num_attention_heads=7,
    num_key_value_heads=1,
    head_dim=64,
    vocab_size=401,
    tie_word_embeddings=False,
)
ODD_CONFIG = VlaConfig(
    frame=FrameConfig(width=48, height=32),
    cache=CacheConfig(capacity_slots=1024, page_slots=64),
    action=ActionConfig(bins=37),
)
FORMATS = (("bf16", "bf16"), ("int8", "int8"), ("int4", "bf16"))  # of weights, of keys and values
TEXT = nvrtc.kernel_text()
TINY_FILE = ("embedding.cu", 90, {"HIDDEN": 64, "EMBEDDING_BITS": 16, "EMBEDDING_TILES": 4})


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(nvrtc.CACHE_VARIABLE, str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def no_compiler(*_):
    raise AssertionError("compiled again")


def every_source(sizes):
    return [*loading_sources(), *(source for name in sizes.passes for source in pass_sources(sizes, name))]


@pytest.mark.parametrize(("weights", "kv", "architecture"), COMPILED)
def test_all_kernels_compile_at_full_size_and_a_second_start_compiles_nothing(
    architecture, weights, kv, monkeypatch
):
    config = VlaConfig(engine=EngineConfig(weights=weights, kv=kv, draft="last_action"))
    sizes = plan(QWEN2_5_CODER_1_5B, config, Device("chip", architecture, *CHIPS[architecture]))
    sources = every_source(sizes)
    assert set(sizes.passes) == {"decode", "prefill", "drafted", "verify"}
    first = [nvrtc.compile_kernels(file, architecture, macros) for file, _, macros in sources]
    assert all(code.startswith(b"\x7fELF") for code in first)
    monkeypatch.setattr(nvrtc, "_compile", no_compiler)
    assert [nvrtc.compile_kernels(file, architecture, macros) for file, _, macros in sources] == first


@pytest.mark.parametrize(("weights", "kv"), FORMATS)
def test_all_kernels_compile_at_odd_sizes(weights, kv):
    config = replace(ODD_CONFIG, engine=EngineConfig(weights=weights, kv=kv, draft="last_action"))
    sizes = plan(ODD, config, Device("chip", 87, *CHIPS[87]))
    for file, _, macros in every_source(sizes):
        assert nvrtc.compile_kernels(file, 87, macros)


@pytest.mark.parametrize("architecture", CHIPS)
def test_the_probes_kernel_compiles_past_the_cache(architecture, cache_folder):
    assert nvrtc.compile_anew(probe.FILE, architecture, {}).startswith(b"\x7fELF")
    assert not cache_folder.exists()


def test_every_kernel_file_is_compiled_by_some_pass_or_by_the_probe():
    config = VlaConfig(engine=EngineConfig(draft="last_action"))
    sizes = plan(QWEN2_5_CODER_1_5B, config, Device("chip", 90, *CHIPS[90]))
    assert {file for file, _, _ in every_source(sizes)} | {probe.FILE} == {
        name for name in nvrtc.kernel_text() if name.endswith(".cu")
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(
            nvrtc,
            "kernel_text",
            lambda: {**TEXT, "mma.cuh": TEXT["mma.cuh"] + b"\n"},
        ),
        lambda patch: patch.setattr(
            nvrtc, "options", lambda *_: ("-arch=sm_90", "--std=c++17", "-DHIDDEN=128")
        ),
        lambda patch: patch.setattr(nvrtc.nvrtc, "getVersion", lambda: (99, 0)),
    ],
    ids=["a header that the file includes", "an option", "NVRTC's version"],
)
def test_the_cache_key_covers(change, monkeypatch):
    chosen = nvrtc.options(90, {"HIDDEN": 64})
    before = nvrtc._key("embedding.cu", chosen)
    change(monkeypatch)
    assert nvrtc._key("embedding.cu", nvrtc.options(90, {"HIDDEN": 64})) != before


def test_a_damaged_file_is_compiled_again(cache_folder):
    code = nvrtc.compile_kernels(*TINY_FILE)
    (kept,) = cache_folder.glob("*.cubin")
    kept.write_bytes(kept.read_bytes()[:-100])
    assert nvrtc.compile_kernels(*TINY_FILE) == code
    assert kept.stat().st_size > len(code)


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv(nvrtc.CACHE_VARIABLE, str(blocked / "kernels"))
    assert nvrtc.compile_kernels(*TINY_FILE)


def test_an_error_names_file_and_line(monkeypatch):
    text = {**nvrtc.kernel_text(), "embedding.cu": b'#include "mma.cuh"\nthis is no kernel;\n'}
    monkeypatch.setattr(nvrtc, "kernel_text", lambda: text)
    with pytest.raises(KernelCompileError, match=r"(?s)embedding\.cu.*embedding\.cu\(2\)"):
        nvrtc.compile_kernels(*TINY_FILE)
