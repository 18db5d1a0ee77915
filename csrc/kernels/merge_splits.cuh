// SPDX-License-Identifier: Apache-2.0
// A decode step's attention, merged over its splits inside the output projection. A block merges only the heads
// of its split of k: with all of them every block would read every split.
#pragma once
#include "attention_splits.cuh"
#include "token_rows.cuh"

constexpr int ATTENDED = HEADS * HEAD_DIM;
constexpr int AT_ONCE = ALONE_ON_SM || SPLITS < 16 ? SPLITS : 16;  // splits in registers

// [first_k, first_k + k_count) of the merged vector as bfloat16 pairs, and as many rests behind them.
__device__ __forceinline__ void merge_splits(uint32* shared_row, const float* attended,
                                             const float2* maximum_and_sum, int splits, int first_k,
                                             int k_count) {
  __shared__ float factors[HEADS][SPLITS];
  const int lane = threadIdx.x % WARP;
  const int first_head = first_k / HEAD_DIM, last_head = (first_k + k_count - 1) / HEAD_DIM;
  for (int begin = 0; begin < k_count / 2; begin += GEMM_THREADS) {
    const int pair = begin + threadIdx.x;
    const bool inside = pair < k_count / 2;
    const int k = first_k + 2 * pair, head = min(k / HEAD_DIM, last_head);
    const float* from = attended + partial_row(head / GROUP, 0, head % GROUP) * HEAD_DIM + k % HEAD_DIM;
    float2 more[AT_ONCE];  // a batch of loads, and those of the factors, are one round trip to L2
    auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i)
        more[i] = inside && first + i < splits ? *(const float2*)(from + (first + i) * QUERY_ROWS * HEAD_DIM)
                                               : float2{0.0f, 0.0f};
    };
    load(0);
    if (begin == 0) {
      // By the last warps, which have the fewest loads.
      for (int each = first_head + GEMM_WARPS - 1 - threadIdx.x / WARP; each <= last_head; each += GEMM_WARPS) {
        const float factor = split_factor(maximum_and_sum, each / GROUP, each % GROUP, splits);
        if (lane < SPLITS) factors[each][lane] = factor;
      }
      __syncthreads();
    }
    float2 sum{0.0f, 0.0f};
    for (int first = 0;;) {
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        const float factor = first + i < splits ? factors[head][first + i] : 0.0f;
        sum.x = __fmaf_rn(factor, more[i].x, sum.x);
        sum.y = __fmaf_rn(factor, more[i].y, sum.y);
      }
      first += AT_ONCE;
      if (first >= splits) break;
      load(first);
    }
    if (inside) shared_row[pair] = split_bf16(sum.x, sum.y, shared_row[k_count / 2 + pair]);
  }
  __syncthreads();
}
