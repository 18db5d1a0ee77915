// SPDX-License-Identifier: Apache-2.0
// qkv_projection: RMSNorm (decode), the three projections with bias, rotary positions inside the page, and
// the write of keys and values into the page that this pass fills.
//
//   queries       f32   [TOKENS][HEADS * HEAD_DIM], not rotated
//   keys, values  bf16  this layer's pages [page][KV head][key_offset / value_offset] (kv_page.cuh)
//   residual_out  f32   [HIDDEN] (decode)
//   operand             token operand of HIDDEN k (several tokens)
//   weights             tiles of [(HEADS + 2 * KV_HEADS) * HEAD_DIM rows][HIDDEN]; a row tile holds 8 dims of
//                       a head's lower half and the 8 dims HEAD_DIM / 2 above them, so that the thread which
//                       finishes a pair of rows can rotate it
//   bias          f32   in the same row order
//   rotary        f32   [rank][HEAD_DIM / 2] (cos, sin)
//
// A key is stored rotated by its offset in the page only, once and for ever; attention turns the query by
// the page's base rank instead, so pages can be dropped before it without touching it.
#include "chunk_state.cuh"
#include "kv_page.cuh"
#include "token_operand.cuh"

constexpr int QKV_ROW_TILES = (HEADS + 2 * KV_HEADS) * HEAD_DIM / TILE_ROWS;
constexpr int HEAD_TILES = HEAD_DIM / TILE_ROWS;

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
  const TokenOperand tokens = gemm.copy_operand(shared + GEMM_BYTES, operand, HIDDEN);
#endif
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    const TokenPlace place = place_of(state, token);
    if (!place.live) return;
    low += bias[row_tile * TILE_ROWS + row];
    high += bias[row_tile * TILE_ROWS + row + 8];
    const int head = row_tile / HEAD_TILES;
    const int dim = row_tile % HEAD_TILES * 8 + row;
    if (head < HEADS) {
      float* query = queries + (token * HEADS + head) * HEAD_DIM;
      query[dim] = low;
      query[dim + HEAD_DIM / 2] = high;
      return;
    }
    const int slot = place.slot;
    const int kv_head = (head - HEADS) % KV_HEADS;
    const uint64 at = ((uint64)state->page[place.entry] * KV_HEADS + kv_head) * PAGE_SLOTS * HEAD_DIM;
    if (head < HEADS + KV_HEADS) {
      const float2 turn = rotary[slot * (HEAD_DIM / 2) + dim];
      keys[at + key_offset(slot, dim)] = float_to_bf16(turned(low, turn.x, -high, turn.y));
      keys[at + key_offset(slot, dim + HEAD_DIM / 2)] = float_to_bf16(turned(high, turn.x, low, turn.y));
    } else {
      values[at + value_offset(slot, dim)] = float_to_bf16(low);
      values[at + value_offset(slot, dim + HEAD_DIM / 2)] = float_to_bf16(high);
    }
  });
}
