# SPDX-License-Identifier: Apache-2.0
"""How one KV head's keys, or values, lie in a page: ``kv_page.cuh`` in NumPy.

bfloat16: the elements in the order of the tensor cores' operands. int8: the same order, a byte each, and
behind them the bfloat16 scales (``model/kept_kv.py``), in the order in which lanes load them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, float32_to_bfloat16
from vla_edge_ros.model.kept_kv import GROUP, dequantise_kv, quantise_kv

Float = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]

_NAN = np.uint16(0x7FC0)


@dataclass(frozen=True, slots=True)
class KvFormat:
    """``bits`` a number."""

    name: str
    bits: int

    def page_bytes(self, slots: int, head_dim: int) -> int:
        """Keys, or values, of one KV head: ``PAGE_BYTES`` of kv_page.cuh."""
        numbers = slots * head_dim
        return numbers * self.bits // 8 + (numbers // GROUP * 2 if self.bits == 8 else 0)


BF16_KV, INT8_KV = KvFormat("bf16", 16), KvFormat("int8", 8)
KV_FORMATS = {each.name: each for each in (BF16_KV, INT8_KV)}


def key_offsets(slots: int, head_dim: int) -> Offsets:
    """``[slot, dim]`` -> element in one KV head's page of keys."""
    slot, dim = np.mgrid[:slots, :head_dim]
    half, in_half = np.divmod(dim, head_dim // 2)
    lane = slot % 8 * 4 + dim % 8 // 2
    reg = half * 2 + dim % 16 // 8
    return ((slot // 8 * (head_dim // 32) + in_half // 16) * 32 + lane) * 8 + reg * 2 + dim % 2


def value_offsets(slots: int, head_dim: int) -> Offsets:
    """``[slot, dim]`` -> element in one KV head's page of values."""
    slot, dim = np.mgrid[:slots, :head_dim]
    lane = dim % 8 * 4 + slot % 8 // 2
    reg = dim // 8 % 2 * 2 + slot % 16 // 8
    return ((slot // 16 * (head_dim // 16) + dim // 16) * 32 + lane) * 8 + reg * 2 + slot % 2


def int8_bytes(offsets: Offsets) -> Offsets:
    """Elements -> their bytes in a page of int8."""
    return offsets // 4 * 4 + offsets % 2 * 2 + offsets // 2 % 2


def key_scale_offsets(slots: int, head_dim: int) -> Offsets:
    """``[slot, row tile]`` -> place among a page's scales of keys."""
    slot, tile = np.mgrid[:slots, : head_dim // GROUP]
    return ((slot // 8 * (head_dim // GROUP // 2) + tile // 2) * 8 + slot % 8) * 2 + tile % 2


def value_scale_offsets(slots: int, head_dim: int) -> Offsets:
    """``[slot, row tile]`` -> place among a page's scales of values."""
    slot, tile = np.mgrid[:slots, : head_dim // GROUP]
    lane_scales = (slot // 16 * (head_dim // GROUP // 2) + tile // 2) * 4 + slot % 8 // 2
    return lane_scales * 8 + tile % 2 * 4 + slot % 16 // 8 * 2 + slot % 2


@dataclass(frozen=True, slots=True)
class PageOrder:
    """Of keys or of values: where numbers and scales are. ``numbers`` are elements, whatever their size."""

    numbers: Offsets
    scales: Offsets

    @classmethod
    def of_keys(cls, slots: int, head_dim: int) -> PageOrder:
        return cls(key_offsets(slots, head_dim), key_scale_offsets(slots, head_dim))

    @classmethod
    def of_values(cls, slots: int, head_dim: int) -> PageOrder:
        return cls(value_offsets(slots, head_dim), value_scale_offsets(slots, head_dim))

    def pack(self, plain: Float, kept_as: KvFormat) -> Bytes:
        """``[..., slot, dim]`` -> ``[..., page bytes]``. NaN is allowed; in int8 it takes its group along."""
        page = np.empty((*plain.shape[:-2], kept_as.page_bytes(*self.numbers.shape)), np.uint8)
        if kept_as.bits == 16:
            page.view(np.uint16)[..., self.numbers] = _to_bits(plain)
            return page
        integers, scales = quantise_kv(plain)
        page[..., int8_bytes(self.numbers)] = integers.view(np.uint8)
        page.view(np.uint16)[..., self.numbers.size // 2 + self.scales] = _to_bits(scales)
        return page

    def unpack(self, page: Bytes, kept_as: KvFormat) -> Float:
        """``[..., page bytes]`` -> ``[..., slot, dim]``"""
        if kept_as.bits == 16:
            return bfloat16_to_float32(page.view(np.uint16)[..., self.numbers])
        scales = page.view(np.uint16)[..., self.numbers.size // 2 + self.scales]
        return dequantise_kv(page[..., int8_bytes(self.numbers)].view(np.int8), bfloat16_to_float32(scales))


def _to_bits(values: Float) -> NDArray[np.uint16]:
    bits = float32_to_bfloat16(np.nan_to_num(values))
    return np.where(np.isnan(values), _NAN, bits)
