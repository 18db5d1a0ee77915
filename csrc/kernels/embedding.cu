// SPDX-License-Identifier: Apache-2.0
// embed_tokens: rows of the embedding matrix, as the residual stream of a prompt or of drafted action tokens.
//
//   residual   f32   [TOKENS][HIDDEN]
//   token_ids  i32   [TOKENS]
//   embedding        tiles of [vocabulary rounded up to 16][HIDDEN] (embedding_row.cuh)
//
// Block = one token.
#include "embedding_row.cuh"

constexpr int EMBED_THREADS = 256;

extern "C" __global__ void __launch_bounds__(EMBED_THREADS)
    embed_tokens(float* residual, const int* token_ids, const uint8* embedding) {
  let_successor_start();
  wait_for_predecessor();
  const EmbeddingRow row(embedding, token_ids[blockIdx.x]);
  for (int k = threadIdx.x; k < HIDDEN; k += EMBED_THREADS) residual[blockIdx.x * HIDDEN + k] = row[k];
}
