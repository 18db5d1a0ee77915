// SPDX-License-Identifier: Apache-2.0
// The key warps of a block put their pieces of the softmax together, in a fixed order.
#pragma once
#include "attend_page.cuh"
#include "attention_splits.cuh"

constexpr int ATTENTION_THREADS = ROW_WARPS * KEY_WARPS * WARP;

// Threads of the block: a persistent kernel's has warps that do not attend, and they help to merge.
#ifdef PERSISTENT
constexpr int MERGING_THREADS = GEMM_THREADS;
#else
constexpr int MERGING_THREADS = ATTENTION_THREADS;
#endif
constexpr int ROWS_KEPT = QUERY_ROWS < 16 ? QUERY_ROWS : 16;  // of a query tile

// Add the key warps' results in their order and write the block's share. Three barriers; all warps of the block
// take part, `state` is that of one that attends.
//   first_row, end_row  this block's first row, and the one behind the last of its kind
//   rows   [key warp][row warp][ROWS_KEPT][QUERY_STRIDE], stats [key warp][row warp][16]
__device__ __forceinline__ void merge_key_warps(const RowState& state, float* rows, float2* stats,
                                                int row_warp, int key_warp, int first_row, int end_row,
                                                float* partial,
                                                float2* maximum_and_sum, uint64 first_partial) {
  const int lane = threadIdx.x % WARP;
  const int mine = key_warp * ROW_WARPS + row_warp;
  const bool attends = MERGING_THREADS == ATTENTION_THREADS || key_warp < KEY_WARPS;
  __syncthreads();  // the pages are not needed any more
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (attends && lane % 4 == 0)
      stats[mine * 16 + lane / 4 + 8 * half] = float2{state.top[half], state.sum[half]};
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    float top = negative_infinity();
#pragma unroll
    for (int warp = 0; warp < KEY_WARPS; ++warp)
      top = fmaxf(top, stats[(warp * ROW_WARPS + row_warp) * 16 + row].x);
    const float factor = state.sum[half] > 0.0f ? exp2_fast(state.top[half] - top) : 0.0f;
    if (!attends || row >= ROWS_KEPT) continue;
    float* at = rows + (mine * ROWS_KEPT + row) * QUERY_STRIDE + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; ++d)
      *(float2*)(at + d * 8) =
          float2{__fmul_rn(state.output[d].v[2 * half], factor),
                 __fmul_rn(state.output[d].v[2 * half + 1], factor)};
  }
  __syncthreads();
  constexpr int PAIRS = HEAD_DIM / 2;
  for (int i = threadIdx.x; i < ROW_WARPS * ROWS_KEPT * PAIRS; i += MERGING_THREADS) {
    const int pair = i % PAIRS, row = i / PAIRS % ROWS_KEPT, tile = i / (PAIRS * ROWS_KEPT);
    const int query_row = first_row + tile * 16 + row;
    if (query_row >= end_row) continue;
    float2 sum{0.0f, 0.0f};
#pragma unroll
    for (int warp = 0; warp < KEY_WARPS; ++warp) {
      const float2 more =
          *(const float2*)(rows + ((warp * ROW_WARPS + tile) * ROWS_KEPT + row) * QUERY_STRIDE + pair * 2);
      sum.x += more.x;
      sum.y += more.y;
    }
    *(float2*)(partial + (first_partial + query_row) * HEAD_DIM + pair * 2) = sum;
  }
  for (int i = threadIdx.x; i < ROW_WARPS * ROWS_KEPT; i += MERGING_THREADS) {
    const int row = i % ROWS_KEPT, tile = i / ROWS_KEPT, query_row = first_row + tile * 16 + row;
    if (query_row >= end_row) continue;
    float top = negative_infinity(), sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < KEY_WARPS; ++warp)
      top = fmaxf(top, stats[(warp * ROW_WARPS + tile) * 16 + row].x);
#pragma unroll
    for (int warp = 0; warp < KEY_WARPS; ++warp) {
      const float2 piece = stats[(warp * ROW_WARPS + tile) * 16 + row];
      if (piece.y > 0.0f) sum = __fmaf_rn(piece.y, exp2_fast(piece.x - top), sum);
    }
    maximum_and_sum[first_partial + query_row] = float2{top, sum};
  }
}
