// SPDX-License-Identifier: Apache-2.0
// qkv_projection: RMSNorm (decode), the three projections with bias, rotary positions inside the page, and
// the write of keys and values into the page that this pass fills (qkv_rows.cuh).
//
//   residual_out  f32   [HIDDEN] (decode)
//   operand             token operand of HIDDEN k (several tokens)
//   bias          f32   in the order of the packed rows
//   weights             tiles of [(HEADS + 2 * KV_HEADS) * HEAD_DIM rows][HIDDEN]
#include "qkv_rows.cuh"
#include "token_operand.cuh"

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    qkv_projection(float* queries, uint16* keys, uint16* values, float* residual_out, Residual residual,
                   const uint32* operand, const float* norm_weight, const Vec4* weights, const float* bias,
                   const float2* rotary, const ChunkState* state) {
  extern __shared__ __align__(128) char shared[];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, QKV_ROW_TILES, HIDDEN / TILE_K, 0, 1);
#if TOKENS == 1
  ResidualRow<GEMM_THREADS> gain;
  gain.load(norm_weight);
  wait_for_predecessor();
  const TokenOperand tokens =
      normalise_residual((uint32*)(shared + GEMM_BYTES), residual, gain, residual_out);
#else
  wait_for_predecessor();
  const auto tokens = gemm.take_operand(shared + GEMM_BYTES, operand, HIDDEN);
#endif
  const QkvRows rows{queries, keys, values, rotary, 0, state};
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    const float* add = bias + row_tile * TILE_ROWS + row;
    rows.store(row_tile, row, token, low + add[0], high + add[8]);
  });
}
