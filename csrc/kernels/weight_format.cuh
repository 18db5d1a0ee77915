// SPDX-License-Identifier: Apache-2.0
// How weights lie in memory, and how a lane turns its 16 bytes of them into tensor-core operands.
//
// WEIGHT_BITS  16  bfloat16 as the checkpoint has them
//               8  int8, one float32 scale a row
//               4  int4, one bfloat16 scale for each 128 k of a row
//
// A weight tile is 512 bytes whatever the format, 16 bytes a lane: 16 rows and WEIGHT_TILE_K of k, which are
// TILE_STEPS operands of the tensor cores. Integers become bfloat16 or float16 in registers, exactly, and the
// scale is applied to float32 sums: per row once a row tile, per group once a weight tile.
//
// Bytes of a lane's 32-bit word, from the lowest: rows r and r + 8 at k, rows r and r + 8 at k + 1, with
// r = lane / 4 and k % 8 = 2 * (lane % 4): an operand pair, k and k + 1, is made of the two halves of a word.
// An int8 word holds one half of an operand. An int4 word holds a whole one: the low nibble of each byte is
// its k, the high nibble 8 behind it. All are two's complement, so zeroed memory is zeros.
#pragma once
#include "integers.cuh"
#include "mma.cuh"

constexpr int WEIGHT_TILE_K = TILE_BYTES * 8 / (TILE_ROWS * WEIGHT_BITS);
constexpr int TILE_STEPS = WEIGHT_TILE_K / TILE_K;
constexpr int SCALE_GROUP = 128;  // k that share an int4 scale
constexpr int GROUP_TILES = SCALE_GROUP / WEIGHT_TILE_K;

__device__ __forceinline__ uint32 word_of(const Vec4& a, int i) {
  return i == 0 ? a.x : i == 1 ? a.y : i == 2 ? a.z : a.w;
}

// Operand `step` of a tile, as bfloat16; `step` must be known to the compiler.
__device__ __forceinline__ Vec4 weights_as_bf16(const Vec4& tile, int step) {
  if constexpr (WEIGHT_BITS == 8) {
    const uint32 near = word_of(tile, 2 * step), far = word_of(tile, 2 * step + 1);
    return {int8_to_bf16(near), int8_to_bf16(near >> 8), int8_to_bf16(far), int8_to_bf16(far >> 8)};
  } else if constexpr (WEIGHT_BITS == 4) {
    const uint32 word = word_of(tile, step);
    return {int4_to_bf16(word), int4_to_bf16(word >> 8), int4_to_bf16(word >> 4), int4_to_bf16(word >> 12)};
  } else {
    return tile;
  }
}

// Operand `step` of a tile, as float16.
__device__ __forceinline__ Vec4 weights_as_half(const Vec4& tile, int step) {
  if constexpr (WEIGHT_BITS == 8) {
    const uint32 near = word_of(tile, 2 * step), far = word_of(tile, 2 * step + 1);
    return {int8_to_half(near), int8_to_half(near >> 8), int8_to_half(far), int8_to_half(far >> 8)};
  } else if constexpr (WEIGHT_BITS == 4) {
    const uint32 word = word_of(tile, step), upper = word >> 8;
    return {int4_to_half(word), int4_to_half(upper), high_int4_to_half(word), high_int4_to_half(upper)};
  } else {
    return bf16_to_half(tile);
  }
}

// The factors of accumulator rows lane / 4 and lane / 4 + 8.
struct RowScales {
  float low, high;
};

// sum += scales * partial, rounded once, so that every pass that splits k alike has the same bits
__device__ __forceinline__ void add_scaled(Accumulator& sum, const RowScales& scales,
                                           const Accumulator& partial) {
  sum.v[0] = __fmaf_rn(scales.low, partial.v[0], sum.v[0]);
  sum.v[1] = __fmaf_rn(scales.low, partial.v[1], sum.v[1]);
  sum.v[2] = __fmaf_rn(scales.high, partial.v[2], sum.v[2]);
  sum.v[3] = __fmaf_rn(scales.high, partial.v[3], sum.v[3]);
}
