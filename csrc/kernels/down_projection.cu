// SPDX-License-Identifier: Apache-2.0
// down_projection: multiply by W_down, split along k.
//
//   partials   f32   [DOWN_SPLIT_K][TOKENS][HIDDEN]; the next RMSNorm adds them to the residual
//   activated  as gate_up.cu leaves it
//   weights    tiles of [HIDDEN rows][INTERMEDIATE], padded with columns of zeros
//
// blockIdx.y = split of k (split-K).
#include "token_operand.cuh"

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    down_projection(float* partials, const uint32* activated, const Vec4* weights) {
  extern __shared__ __align__(128) char shared[];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, HIDDEN / TILE_ROWS, INTERMEDIATE / TILE_K, blockIdx.y, DOWN_SPLIT_K);
  wait_for_predecessor();
  const auto tokens = gemm.take_operand(shared + GEMM_BYTES, activated, INTERMEDIATE);
  float* partial = partials + blockIdx.y * TOKENS * HIDDEN;
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    float* at = partial + token * HIDDEN + row_tile * TILE_ROWS + row;
    at[0] = low / activated_scale(token);
    at[8] = high / activated_scale(token);
  });
}
