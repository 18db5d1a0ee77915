// SPDX-License-Identifier: Apache-2.0
// output_projection: merge the attention's splits (decode) and multiply by W_o, split along k.
//
//   partials  f32   [OUTPUT_SPLIT_K][TOKENS][HIDDEN]; the next RMSNorm adds them to the residual
//   attended  f32   attention's partial results, maximum_and_sum beside them (decode)
//   operand         token operand of HEADS * HEAD_DIM k (several tokens)
//   weights         tiles of [HIDDEN rows][HEADS * HEAD_DIM]
//
// blockIdx.y = split of k (split-K).
#include "merge_splits.cuh"
#include "token_operand.cuh"

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    output_projection(float* partials, const float* attended, const float2* maximum_and_sum,
                      const uint32* operand, const Vec4* weights, const ChunkState* state) {
  extern __shared__ __align__(128) char shared[];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, HIDDEN / TILE_ROWS, ATTENDED / TILE_K, blockIdx.y, OUTPUT_SPLIT_K);
  wait_for_predecessor();
  uint32* row = (uint32*)(shared + GEMM_BYTES);
#if TOKENS == 1
  merge_splits(row, attended, maximum_and_sum, splits_in_use(state, false), gemm.first_k(), gemm.k_count());
  const TokenOperand tokens{row, gemm.k_count() / 2};
#else
  const auto tokens = gemm.take_operand(row, operand, ATTENDED);
#endif
  float* partial = partials + blockIdx.y * TOKENS * HIDDEN;
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    float* at = partial + token * HIDDEN + row_tile * TILE_ROWS + row;
    at[0] = low;
    at[8] = high;
  });
}
