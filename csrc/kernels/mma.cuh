// SPDX-License-Identifier: Apache-2.0
// The tensor-core instruction used, m16n8k16 on bfloat16 or float16 with float32 accumulation (sm_80 and
// later), and the orders in which its operands lie in memory.
//
// Weights are the 16-row operand, tokens the 8-column one. A 16x16 weight tile is stored so that lane l of
// a warp finds its four registers in 16 consecutive bytes: one conflict-free load, no shuffles, no ldmatrix,
// and a tile row is read front to back as one stream.
#pragma once
#include "common.cuh"

constexpr int TILE_K = 16;
constexpr int TILE_ROWS = 16;
constexpr int TILE_TOKENS = 8;
constexpr int TILE_BYTES = TILE_ROWS * TILE_K * 2;

struct Accumulator {
  // [0], [1]: row lane / 4, tokens 2 * (lane % 4) and one more; [2], [3]: the same of row lane / 4 + 8.
  float v[4];
};

__device__ __forceinline__ void mma(Accumulator& d, const Vec4& a, uint32 b0, uint32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d.v[0]), "+f"(d.v[1]), "+f"(d.v[2]), "+f"(d.v[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_half(Accumulator& d, const Vec4& a, uint32 b0, uint32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d.v[0]), "+f"(d.v[1]), "+f"(d.v[2]), "+f"(d.v[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Four bfloat16 pairs as float16: exact from 2^-14 to 65,504, below that to within 2^-25.
__device__ __forceinline__ uint32 bf16_pair_to_half(uint32 pair) {
  return pack_half(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

__device__ __forceinline__ Vec4 bf16_to_half(const Vec4& a) {
  return {bf16_pair_to_half(a.x), bf16_pair_to_half(a.y), bf16_pair_to_half(a.z), bf16_pair_to_half(a.w)};
}

// Offset, in bfloat16 elements, of element (row, k) inside a weight tile.
__device__ __forceinline__ int weight_tile_offset(int row, int k) {
  const int lane = (row % 8) * 4 + (k % 8) / 2;
  const int reg = row / 8 + 2 * (k / 8);
  return lane * 8 + reg * 2 + k % 2;
}

// Offset, in elements, of (token, k) in one 8-column tile: [lane][register 0, 1][pair].
__device__ __forceinline__ int column_offset(int token, int k) {
  return (token * 4 + (k % 8) / 2) * 4 + k / 8 * 2 + k % 2;
}
