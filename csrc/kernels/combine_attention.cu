// SPDX-License-Identifier: Apache-2.0
// combine_attention: merge the splits of several tokens into the output projection's operand.
//
//   operand  token operand of HEADS * HEAD_DIM k (token_rows.cuh)
//   partial, maximum_and_sum  as attention.cu writes them
//
// Warp = one query row of one KV head; a lane takes 2 dims of each 64.
#include "attention_splits.cuh"
#include "token_rows.cuh"

constexpr int COMBINE_WARPS = 4;

extern "C" __global__ void __launch_bounds__(COMBINE_WARPS* WARP)
    combine_attention(uint32* operand, const float* partial, const float2* maximum_and_sum,
                      const ChunkState* state) {
  let_successor_start();
  const int lane = threadIdx.x % WARP;
  const int index = blockIdx.x * COMBINE_WARPS + threadIdx.x / WARP;
  const int row = index % QUERY_ROWS, kv_head = index / QUERY_ROWS;
  const int splits = splits_in_use(state, row < FRAME_ROWS);  // not what the predecessor writes
  wait_for_predecessor();
  if (kv_head >= KV_HEADS) return;
  const int token = row / GROUP, head = kv_head * GROUP + row % GROUP;
  float2 more[HEAD_DIM / 64][SPLITS];  // loaded beside the factors: one round trip to L2
#pragma unroll
  for (int split = 0; split < SPLITS; ++split) {
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 64; ++i) {
      const float* from = partial + partial_row(kv_head, split, row) * HEAD_DIM + i * 64 + lane * 2;
      more[i][split] = split < splits ? *(const float2*)from : float2{0.0f, 0.0f};
    }
  }
  const float factor = split_factor(maximum_and_sum, kv_head, row, splits);
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 64; ++i) {
    const int dim = i * 64 + lane * 2;
    float2 sum{0.0f, 0.0f};
#pragma unroll
    for (int split = 0; split < SPLITS; ++split) {
      const float weight = __shfl_sync(ALL_LANES, factor, split);
      sum.x = __fmaf_rn(weight, more[i][split].x, sum.x);
      sum.y = __fmaf_rn(weight, more[i][split].y, sum.y);
    }
    store_operand(operand, token, head * HEAD_DIM + dim, sum.x, sum.y);
  }
}
