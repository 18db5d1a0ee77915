// SPDX-License-Identifier: Apache-2.0
// embed_tokens: rows of the embedding matrix, as the residual stream of a prompt or of drafted action tokens.
//
//   residual   f32   [TOKENS][HIDDEN]
//   token_ids  i32   [TOKENS]
//   embedding  bf16  tiles of [vocabulary rounded up to 16][HIDDEN]
//
// Block = one token. The matrix is kept once, in the order the full-vocabulary head streams it.
#include "mma.cuh"

constexpr int EMBED_THREADS = 256;

extern "C" __global__ void __launch_bounds__(EMBED_THREADS)
    embed_tokens(float* residual, const int* token_ids, const uint16* embedding) {
  let_successor_start();
  wait_for_predecessor();
  const int token = token_ids[blockIdx.x];
  const uint16* tile_row = embedding + (uint64)(token / TILE_ROWS) * (HIDDEN / TILE_K) * TILE_ROWS * TILE_K;
  for (int k = threadIdx.x; k < HIDDEN; k += EMBED_THREADS)
    residual[blockIdx.x * HIDDEN + k] = bf16_to_float(
        tile_row[k / TILE_K * TILE_ROWS * TILE_K + weight_tile_offset(token % TILE_ROWS, k % TILE_K)]);
}
