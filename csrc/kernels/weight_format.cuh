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
#include "mma.cuh"

constexpr int WEIGHT_TILE_K = TILE_BYTES * 8 / (TILE_ROWS * WEIGHT_BITS);
constexpr int TILE_STEPS = WEIGHT_TILE_K / TILE_K;
constexpr int SCALE_GROUP = 128;  // k that share an int4 scale
constexpr int GROUP_TILES = SCALE_GROUP / WEIGHT_TILE_K;

// One instruction each. Left to the compiler they are two: it takes both constants for immediates, of which
// an instruction has one.
__device__ __forceinline__ uint32 and_or(uint32 a, uint32 mask, uint32 bits) {
  uint32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
  return d;
}

__device__ __forceinline__ uint32 and_xor(uint32 a, uint32 mask, uint32 bits) {
  uint32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
  return d;
}

// Exact where the result is representable, as it is in all uses below.
__device__ __forceinline__ uint32 fma_bf16(uint32 a, uint32 b, uint32 c) {
  uint32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

__device__ __forceinline__ uint32 fma_half(uint32 a, uint32 b, uint32 c) {
  uint32 d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// Bytes 0 and 2 of a word of int8 as bfloat16: the low seven bits behind the exponent of 128 are 128 + m, and
// the sign bit, in the place of the lowest exponent bit, makes the subtrahend 128 or 256.
__device__ __forceinline__ uint32 int8_to_bf16(uint32 word) {
  constexpr uint32 ONE = 0x3f803f80u;
  return fma_bf16(and_or(word, 0x007f007fu, 0x43004300u), ONE, and_or(word, 0x00800080u, 0xc300c300u));
}

// The same as float16: 1024 + 128 + q, less 1152.
__device__ __forceinline__ uint32 int8_to_half(uint32 word) {
  constexpr uint32 ONE = 0x3c003c00u;
  return fma_half(and_xor(word, 0x00ff00ffu, 0x64806480u), ONE, 0xe480e480u);
}

// Bits 0 to 3 of both halves of a word as bfloat16: 128 + 8 + q, less 136.
__device__ __forceinline__ uint32 int4_to_bf16(uint32 word) {
  constexpr uint32 ONE = 0x3f803f80u;
  return fma_bf16(and_xor(word, 0x000f000fu, 0x43084308u), ONE, 0xc308c308u);
}

// The same as float16: 1024 + 8 + q, less 1032.
__device__ __forceinline__ uint32 int4_to_half(uint32 word) {
  constexpr uint32 ONE = 0x3c003c00u;
  return fma_half(and_xor(word, 0x000f000fu, 0x64086408u), ONE, 0xe408e408u);
}

// Bits 4 to 7: (1024 + 16 * (8 + q)) / 16, less 72. Float16 has the bits for it, bfloat16 has not.
__device__ __forceinline__ uint32 high_int4_to_half(uint32 word) {
  constexpr uint32 SIXTEENTH = 0x2c002c00u;
  return fma_half(and_xor(word, 0x00f000f0u, 0x64806480u), SIXTEENTH, 0xd480d480u);
}

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

// sum += scales * part, rounded once, so that every pass that cuts k alike has the same bits
__device__ __forceinline__ void add_scaled(Accumulator& sum, const RowScales& scales,
                                           const Accumulator& part) {
  sum.v[0] = __fmaf_rn(scales.low, part.v[0], sum.v[0]);
  sum.v[1] = __fmaf_rn(scales.low, part.v[1], sum.v[1]);
  sum.v[2] = __fmaf_rn(scales.high, part.v[2], sum.v[2]);
  sum.v[3] = __fmaf_rn(scales.high, part.v[3], sum.v[3]);
}
