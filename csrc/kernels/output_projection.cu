// SPDX-License-Identifier: Apache-2.0
// output_projection: merge the attention's splits (decode) and multiply by W_o, split along k.
//
//   partials  f32   [OUTPUT_PARTS][TOKENS][HIDDEN]; the next RMSNorm adds them to the residual
//   attended  f32   attention's partial results, maximum_and_sum beside them (decode)
//   operand         token operand of HEADS * HEAD_DIM k (several tokens)
//   weights         tiles of [HIDDEN rows][HEADS * HEAD_DIM]
//
// blockIdx.y = part of k. A decode block merges only the heads of its part: with all of them every block
// would read every split.
#include "attention_splits.cuh"
#include "chunk_state.cuh"
#include "token_operand.cuh"

constexpr int ATTENDED = HEADS * HEAD_DIM;
constexpr int AT_ONCE = SPLITS < 16 ? SPLITS : 16;  // splits in registers

__device__ __forceinline__ TokenOperand merge_attention(uint32* shared_row, const float* attended,
                                                        const float2* maximum_and_sum, int splits,
                                                        int first_k, int k_count) {
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
      for (int each = first_head + threadIdx.x / WARP; each <= last_head; each += GEMM_WARPS) {
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
  return {shared_row, k_count / 2};
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
  const TokenOperand tokens = merge_attention(row, attended, maximum_and_sum, splits_in_use(state, false),
                                              gemm.first_k(), gemm.k_count());
#else
  const TokenOperand tokens = gemm.copy_operand(row, operand, ATTENDED);
#endif
  float* part = partials + blockIdx.y * TOKENS * HIDDEN;
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    float* at = part + token * HIDDEN + row_tile * TILE_ROWS + row;
    at[0] = low;
    at[8] = high;
  });
}
