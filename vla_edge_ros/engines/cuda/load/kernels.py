# SPDX-License-Identifier: Apache-2.0
"""Every kernel of the engine, compiled and loaded; and how one is launched."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

from cupy.cuda.function import Module

from vla_edge_ros.engines.cuda.load import driver, nvrtc
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.sizes import Sizes

FULL_CARVEOUT = 100
COMPILERS = 4  # threads; NVRTC lets the GIL go. A file takes half a second and 100 to 200 MB of the host
PERSISTENT = ("decode_layers",)


class Residual(ctypes.Structure):
    """``Residual`` of residual.cuh, passed by value."""

    _fields_ = (
        ("stream", ctypes.c_void_p),
        ("partials", ctypes.c_void_p),
        ("split_k", ctypes.c_int),
        ("split_stride", ctypes.c_int),
    )


class LayerStride(ctypes.Structure):
    """``LayerStride`` of decode_layers.cu: bytes from one layer's to the next layer's."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("qkv", "output", "gate_up", "down", "pages"))


class DecodeLayers(ctypes.Structure):
    """``DecodeLayers`` of decode_layers.cu, passed by value."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "qkv", "output", "gate_up", "down", "norms", "bias", "pages", "rotary", "state", "input",
                "residual_out", "queries", "attended", "softmax", "output_partials", "activated",
                "down_partials", "barriers", "cancelled", "stop", "times",
            )
        ),
        ("stride", LayerStride),
    )  # fmt: skip


class Kernel:
    """One loaded function. ``signature``: the ctypes type of each argument."""

    def __init__(self, module: Module, name: str, signature: Sequence[Any], attribute: int | None):
        self.name = name
        self._module = module  # keeps the code loaded
        self._function = int(module.get_function(name).ptr)
        self._signature = tuple(signature)
        self._attribute = attribute
        self._shared_limit = 0
        # The same carve-out for all: to change it an SM first drains, and no two kernels would overlap.
        driver.set_function_attribute(self._function, driver.SHARED_MEMORY_CARVEOUT, FULL_CARVEOUT)

    def launch(
        self, stream: int, grid: tuple[int, int, int], threads: int, shared_bytes: int, *values: Any
    ) -> None:
        assert len(values) == len(self._signature), f"{self.name} takes {len(self._signature)} arguments"
        if shared_bytes > self._shared_limit:
            driver.set_function_attribute(self._function, driver.MAX_DYNAMIC_SHARED_SIZE, shared_bytes)
            self._shared_limit = shared_bytes
        arguments = tuple(
            value if isinstance(value, kind) else kind(value)
            for kind, value in zip(self._signature, values, strict=True)
        )
        driver.launch(
            self._function, self.name, grid, threads, shared_bytes, arguments, stream, self._attribute
        )


_P, _I, _L, _D = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_double

_PASS_FILES: Mapping[str, tuple[str, ...]] = {
    "qkv.cu": ("qkv_projection",),
    "attention.cu": ("attention",),
    "output_projection.cu": ("output_projection",),
    "gate_up.cu": ("gate_up_swiglu",),
    "down_projection.cu": ("down_projection",),
}
_TOKENS_FILES = {
    **_PASS_FILES,
    "combine_attention.cu": ("combine_attention",),
    "norm.cu": ("residual_rms_norm",),
}
_FILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "decode": {**_PASS_FILES, "head.cu": ("action_head", "select_token")},
    "prefill": {
        **_TOKENS_FILES,
        "embedding.cu": ("embed_tokens",),
        "patch_embedding.cu": ("patch_operand", "patch_projection", "pool_tokens"),
    },
    "drafted": _TOKENS_FILES,
    "verify": {**_TOKENS_FILES, "draft_head.cu": ("draft_norm", "draft_logits", "select_drafts")},
}
_LOADING_FILES = {
    "weights.cu": ("random_bfloat16", "pack_tiles", "to_float"),
    "quantise.cu": ("quantise_int8", "quantise_int4"),
    "bandwidth.cu": ("stream_read",),
}

SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    "qkv_projection": (_P, _P, _P, _P, Residual, _P, _P, _P, _P, _P, _P),
    "attention": (_P, _P, _P, _P, _P, _P, _P),
    "combine_attention": (_P, _P, _P, _P),
    "output_projection": (_P, _P, _P, _P, _P, _P),
    "gate_up_swiglu": (_P, _P, Residual, _P, _P, _P),
    "down_projection": (_P, _P, _P),
    "decode_layers": (DecodeLayers,),
    "action_head": (_P, _P, _P, Residual, _P, _P, _P),
    "select_token": (_P, _P, _P, _P, _I, _P, _P, _P),
    "residual_rms_norm": (_P, _P, Residual, _P),
    "draft_norm": (_P, _P, Residual, _P, _I, _P),
    "draft_logits": (_P, _P, _P, _P),
    "select_drafts": (_P, _P, _P, _I, _P),
    "embed_tokens": (_P, _P, _P),
    "patch_operand": (_P, _P, _I),
    "patch_projection": (_P, _P, _P),
    "pool_tokens": (_P, _P),
    "random_bfloat16": (_P, _L, _L, _L, _D, _D),
    "pack_tiles": (_P, _P, _I, _L, _L, _L, _L, _L, _I, _I, _P),
    "quantise_int8": (_P, _P, _P, _I, _L, _L, _L, _L, _L, _I, _I, _P),
    "quantise_int4": (_P, _P, _P, _I, _L, _L, _L, _L, _L, _I, _I, _P),
    "to_float": (_P, _P, _I, _L, _L, _I, _I, _P),
    "stream_read": (_P, _P, _I, _I),
    "count_threads": (_P, _I),
}


def pass_sources(sizes: Sizes, name: str) -> list[tuple[str, tuple[str, ...], dict[str, str | int]]]:
    """``(file, kernels, macros)`` of one kind of pass."""
    variant = sizes.passes[name]
    projections = {
        "qkv.cu": variant.qkv,
        "output_projection.cu": variant.output,
        "gate_up.cu": variant.gate_up,
        "down_projection.cu": variant.down,
        "head.cu": variant.head,
        "draft_head.cu": variant.head,
        "patch_embedding.cu": variant.patch,
    }
    sources = [
        (file, names, sizes.macros(variant, projections.get(file))) for file, names in _FILES[name].items()
    ]
    if name == "decode" and sizes.persistent is not None:
        sources.append(persistent_source(sizes))
    return sources


def persistent_source(sizes: Sizes) -> tuple[str, tuple[str, ...], dict[str, str | int]]:
    """``(file, kernels, macros)`` of the persistent decode step, for sizes that have one."""
    assert sizes.persistent is not None
    step = sizes.decode
    stages = {"QKV": step.qkv, "OUTPUT": step.output, "GATE_UP": step.gate_up, "DOWN": step.down}
    macros = {
        **sizes.macros(step),
        **sizes.persistent.macros(),
        **{f"{name}_STAGE_TILES": tiling.stage_tiles for name, tiling in stages.items()},
        "LAYERS": sizes.decoder.num_hidden_layers,
    }
    return "decode_layers.cu", PERSISTENT, macros


def loading_sources() -> list[tuple[str, tuple[str, ...], dict[str, str | int]]]:
    return [(file, names, {}) for file, names in _LOADING_FILES.items()]


def load_kernels(
    sources: Sequence[tuple[str, tuple[str, ...], Mapping[str, str | int]]], device: Device, overlap: bool
) -> dict[str, Kernel]:
    """Compile (or take from the cache) and load on the current device.

    ``overlap``: the kernels wait for their predecessor themselves (common.cuh) and may start before its end;
    but for a persistent one, which needs all multiprocessors.
    """
    files, _, macros = zip(*sources, strict=True)
    with ThreadPoolExecutor(COMPILERS) as pool:
        codes = list(pool.map(nvrtc.compile_kernels, files, repeat(device.architecture), macros))
    kernels = {}
    for (_, names, _), code in zip(sources, codes, strict=True):
        module = Module()
        module.load(code)
        for name in names:
            attribute = driver.OVERLAP_PREDECESSOR if overlap else None
            if name in PERSISTENT:
                attribute = driver.COOPERATIVE
            kernels[name] = Kernel(module, name, SIGNATURES[name], attribute)
    return kernels
