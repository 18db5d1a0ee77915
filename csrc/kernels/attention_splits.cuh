// SPDX-License-Identifier: Apache-2.0
// Softmax over pieces: each piece leaves its maximum (in units of log2), its sum and its weighted values.
#pragma once
#include "mma.cuh"

// Floats of one split's result for one KV head: [row][HEAD_DIM], then [row] (maximum, sum).
constexpr int GROUP = HEADS / KV_HEADS;
constexpr int QUERY_ROWS = TOKENS * GROUP;  // row = token * GROUP + query head in the group

__device__ __forceinline__ uint64 partial_row(int kv_head, int split, int row) {
  return ((uint64)kv_head * SPLITS + split) * QUERY_ROWS + row;
}

// Splits that have pages, of `pages` dealt out in groups of KEY_WARPS.
__device__ __forceinline__ int splits_in_use(int pages) {
  return min(SPLITS, (pages + KEY_WARPS - 1) / KEY_WARPS);
}

// The factor of split `lane` in the merged row; all lanes of a warp call this together. SPLITS <= 32.
__device__ __forceinline__ float split_factor(const float2* maximum_and_sum, int kv_head, int row,
                                              int splits) {
  const int lane = threadIdx.x % WARP;
  float2 mine{negative_infinity(), 0.0f};
  if (lane < splits) mine = maximum_and_sum[partial_row(kv_head, lane, row)];
  const float top = warp_max(mine.x);
  const float weight = mine.y > 0.0f ? exp2_fast(mine.x - top) : 0.0f;
  return weight / warp_sum(weight * mine.y);
}
