// SPDX-License-Identifier: Apache-2.0
// Where one KV head's keys and values lie in a page.
//
// KV_BITS  16  bfloat16
//           8  int8, and behind them the scales: a bfloat16 for each row tile of the QKV product and token,
//              sixteen numbers (kv_format.cuh)
#pragma once
#include "mma.cuh"

#if KV_BITS == 16
using KeptNumber = uint16;
#elif KV_BITS == 8
using KeptNumber = uint8;
#else
#error "KV_BITS is 16 or 8"
#endif

constexpr int HEAD_TILES = HEAD_DIM / TILE_ROWS;  // row tiles of the QKV product in a head
constexpr int PAGE_NUMBERS = PAGE_SLOTS * HEAD_DIM;
constexpr int PAGE_SCALES = KV_BITS == 8 ? PAGE_SLOTS * HEAD_TILES : 0;
constexpr int PAGE_BYTES = PAGE_NUMBERS * KV_BITS / 8 + PAGE_SCALES * 2;  // of keys, or of values
constexpr int PAGE_VECS = PAGE_BYTES / 16;
static_assert(PAGE_BYTES % 16 == 0, "pages are copied in pieces of 16 bytes");

// Offsets, in elements, of (slot, dim) in one page of one KV head. Keys are the 8-column operand of
// scores = queries * keys^T, values that of output = probabilities * values; both are read as 8 elements a
// lane. A lane's 8 keys hold a k tile of the lower half of a head and the tile it is rotated with.
__device__ __forceinline__ int key_offset(int slot, int dim) {
  const int lane = (slot % 8) * 4 + (dim % 8) / 2;
  const int half = dim / (HEAD_DIM / 2), in_half = dim % (HEAD_DIM / 2);
  const int reg = half * 2 + (dim % TILE_K) / 8;
  return (((slot / 8) * (HEAD_DIM / 32) + in_half / TILE_K) * WARP + lane) * 8 + reg * 2 + dim % 2;
}

__device__ __forceinline__ int value_offset(int slot, int dim) {
  const int lane = (dim % 8) * 4 + (slot % 8) / 2;
  const int reg = ((dim / 8) % 2) * 2 + (slot % 16) / 8;
  return (((slot / 16) * (HEAD_DIM / 16) + dim / 16) * WARP + lane) * 8 + reg * 2 + slot % 2;
}

// Where an int8 element lies: in a lane's 8 bytes (reg, h) is byte (reg / 2) * 4 + h * 2 + reg % 2, so that the
// even bytes of word w are register 2 * w and the odd ones the next.
__device__ __forceinline__ int int8_byte(int offset) {
  return offset / 4 * 4 + offset % 2 * 2 + offset / 2 % 2;
}

// Which scale is that of `slot` and row tile `tile` of a head. A lane's 8 keys have two scales, side by side;
// its 8 values have eight, in the order of the values' registers.
__device__ __forceinline__ int key_scale_offset(int slot, int tile) {
  return ((slot / 8 * (HEAD_TILES / 2) + tile / 2) * 8 + slot % 8) * 2 + tile % 2;
}

__device__ __forceinline__ int value_scale_offset(int slot, int tile) {
  return ((slot / 16 * (HEAD_TILES / 2) + tile / 2) * 4 + slot % 8 / 2) * 8 + tile % 2 * 4 +
         slot % 16 / 8 * 2 + slot % 2;
}

// One half of a rotary pair after the turn: a * cosine + b * sine.
__device__ __forceinline__ float turned(float a, float cosine, float b, float sine) {
  return __fmaf_rn(a, cosine, __fmul_rn(b, sine));
}
