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
    qkv_projection(float* queries, KeptNumber* keys, KeptNumber* values, float* residual_out,
                   Residual residual, const uint32* operand, const float* norm_weight, const Vec4* weights,
                   const float* bias, const float2* rotary, const ChunkState* state) {
  extern __shared__ __align__(128) char shared[];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, QKV_ROW_TILES, HIDDEN / TILE_K, 0, 1);
  const QkvRows rows{queries, keys, values, rotary, 0, state};
  // What the sums of the first row tile meet, for most blocks the only one, is fetched before the predecessor
  // is done: afterwards it would be three round trips to the L2, one after the other.
  __shared__ KeyPlace places[TOKENS];
  __shared__ float2 turns[TOKENS * 8];
  const int first_tile = blockIdx.x, my_row = threadIdx.x % 8;
  const float* first_bias = bias + first_tile * TILE_ROWS + my_row;
  const float2 my_bias{first_bias[0], first_bias[8]};
  for (int item = threadIdx.x; item < TOKENS * 8; item += GEMM_THREADS) {
    const KeyPlace place = key_place(state, item / 8);
    if (my_row == 0) places[item / 8] = place;
    if (place.live && holds_keys(first_tile)) turns[item] = *rows.turn_of(first_tile, my_row, place);
  }
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
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    const KeyPlace place = places[token];
    if (row_tile == first_tile) {  // `row` is my_row: a thread's items are a multiple of 8 apart
      rows.store(row_tile, row, token, place, turns + token * 8 + row, low + my_bias.x, high + my_bias.y);
      return;
    }
    const float* add = bias + row_tile * TILE_ROWS + row;
    rows.store(row_tile, row, token, place, rows.turn_of(row_tile, row, place), low + add[0], high + add[8]);
  });
}
