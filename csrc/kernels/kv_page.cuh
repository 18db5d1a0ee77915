// SPDX-License-Identifier: Apache-2.0
// Where one KV head's keys and values lie in a page.
#pragma once
#include "mma.cuh"

// Offsets, in elements, of (slot, dim) in one page of one KV head. Keys are the 8-column operand of
// scores = queries * keys^T, values that of output = probabilities * values; both are read as 16 bytes a
// lane. A lane's 16 bytes of keys hold a k tile of the lower half of a head and the tile it is rotated with.
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

// One half of a rotary pair after the turn: a * cosine + b * sine.
__device__ __forceinline__ float turned(float a, float cosine, float b, float sine) {
  return __fmaf_rn(a, cosine, __fmul_rn(b, sine));
}
