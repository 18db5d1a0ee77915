// SPDX-License-Identifier: Apache-2.0
// output_projection: merge the attention's splits (decode) and multiply by W_o, split along k.
//
//   partials  f32   [OUTPUT_PARTS][TOKENS][HIDDEN]; the next RMSNorm adds them to the residual
//   attended  f32   attention's partial results, maximum_and_sum beside them (decode)
//   operand   bf16  token operand of HEADS * HEAD_DIM k (prefill)
//   weights   bf16  tiles of [HIDDEN rows][HEADS * HEAD_DIM]
//
// blockIdx.y = part of k. A decode block merges only the heads of its part: with all of them every block
// would read every split.
#include "attention_merge.cuh"
#include "chunk_state.cuh"
#include "token_operand.cuh"

constexpr int ATTENDED = HEADS * HEAD_DIM;

__device__ __forceinline__ TokenOperand merge_attention(uint32* shared_row, const float* attended,
                                                        const float2* maximum_and_sum, int splits, int first_k,
                                                        int k_count) {
  __shared__ float factors[HEADS][SPLITS];
  const int lane = threadIdx.x % WARP;
  const int first_head = first_k / HEAD_DIM, last_head = (first_k + k_count - 1) / HEAD_DIM;
  for (int head = first_head + threadIdx.x / WARP; head <= last_head; head += GEMM_WARPS) {
    const float factor = split_factor(maximum_and_sum, head / GROUP, head % GROUP, splits);
    if (lane < SPLITS) factors[head][lane] = factor;
  }
  __syncthreads();
  for (int pair = threadIdx.x; pair < k_count / 2; pair += GEMM_THREADS) {
    const int k = first_k + 2 * pair, head = k / HEAD_DIM;
    const float* from = attended + partial_row(head / GROUP, 0, head % GROUP) * HEAD_DIM + k % HEAD_DIM;
    float2 more[SPLITS];  // all loads before the first sum: they are one round trip to L2
#pragma unroll
    for (int split = 0; split < SPLITS; ++split)
      more[split] = split < splits ? *(const float2*)(from + split * QUERY_ROWS * HEAD_DIM) : float2{0.0f, 0.0f};
    float2 sum{0.0f, 0.0f};
#pragma unroll
    for (int split = 0; split < SPLITS; ++split) {
      const float factor = split < splits ? factors[head][split] : 0.0f;
      sum.x += factor * more[split].x;
      sum.y += factor * more[split].y;
    }
    shared_row[pair] = pack_bf16(sum.x, sum.y);
  }
  __syncthreads();
  return {shared_row};
}

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    output_projection(float* partials, const float* attended, const float2* maximum_and_sum,
                      const uint32* operand, const Vec4* weights, const ChunkState* state) {
  extern __shared__ __align__(128) char shared[];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, HIDDEN / TILE_ROWS, ATTENDED / TILE_K, blockIdx.y, OUTPUT_PARTS);
  wait_for_predecessor();
  uint32* row = (uint32*)(shared + GEMM_BYTES);
#if TOKENS == 1
  const TokenOperand tokens = merge_attention(row, attended, maximum_and_sum, splits_in_use(state->pages),
                                              gemm.first_k(), gemm.k_count());
#else
  const TokenOperand tokens = copy_operand(row, operand, gemm.first_k(), gemm.k_count());
#endif
  float* part = partials + blockIdx.y * TOKENS * HIDDEN;
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    float* at = part + token * HIDDEN + row_tile * TILE_ROWS + row;
    at[0] = low;
    at[8] = high;
  });
}
