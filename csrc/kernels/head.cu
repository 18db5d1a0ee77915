// SPDX-License-Identifier: Apache-2.0
// action_head: final RMSNorm of the frame's last token, or of the only one; logits over the head's rows, each
// block's best row.
// select_token: the best of all blocks; the token goes to the host, and its embedding into the residual.
// Both run with TOKENS = 1, after a decode step and after a prefill. (Drafts: draft_head.cu.)
//
//   logits      f32   [HEAD_ROWS]
//   candidates  [block] (logit, row), written by each block
//   residual    f32   the last token's row of [stream_tokens][HIDDEN]
//   weights     tiles of [HEAD_ROWS rounded up to 16][HIDDEN]
//   embedding   tiles of [vocabulary rounded up to 16][HIDDEN] (embedding_row.cuh)
//   tokens_out, status_out  page-locked host memory, [action token]; status_out says whether the hidden state and
//                           all logits were finite (candidate.cuh)
//
// Ties go to the lowest row, whatever the order in which blocks finish.
#include "candidate.cuh"
#include "chunk_state.cuh"
#include "embedding_row.cuh"
#include "token_operand.cuh"

template <int THREADS>
__device__ __forceinline__ Candidate block_best(Candidate mine) {
  __shared__ Candidate best[THREADS / WARP];
  mine = warp_best(mine);
  if (threadIdx.x % WARP == 0) best[threadIdx.x / WARP] = mine;
  __syncthreads();
  for (int warp = 0; warp < THREADS / WARP; ++warp) mine = better(mine, best[warp]);
  return mine;
}

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    action_head(float* logits, Candidate* candidates, int* status, Residual residual,
                const float* norm_weight, const Vec4* weights, const ChunkState* state) {
  extern __shared__ __align__(128) char shared[];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, (HEAD_ROWS + TILE_ROWS - 1) / TILE_ROWS, HIDDEN / TILE_K, 0, 1);
  ResidualRow<GEMM_THREADS> gain;
  gain.load(norm_weight);
  wait_for_predecessor();
  float scale;
  const TokenOperand tokens =
      normalise_residual((uint32*)(shared + GEMM_BYTES), residual, gain, nullptr, &scale,
                         max(state->frame.count, 1) - 1);
  // A NaN or an infinity anywhere in the row makes the factor NaN or zero.
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *status = is_finite(scale) && scale > 0.0f ? FINITE : HIDDEN_NOT_FINITE;
  Candidate mine{negative_infinity(), NO_ROW};
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    const int at = row_tile * TILE_ROWS + row;
    if (at < HEAD_ROWS) {
      logits[at] = low;
      mine = better(mine, candidate(low, at));
    }
    if (at + 8 < HEAD_ROWS) {
      logits[at + 8] = high;
      mine = better(mine, candidate(high, at + 8));
    }
  });
  mine = block_best<GEMM_THREADS>(mine);
  if (threadIdx.x == 0) candidates[blockIdx.x] = mine;
}

// `step_state`: the state whose step counter and slots advance after a decode step; null after a prefill.
extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    select_token(int* tokens_out, int* status_out, float* residual, const Candidate* candidates, int blocks,
                 const int* status, const uint8* embedding, ChunkState* step_state) {
  let_successor_start();
  wait_for_predecessor();
  Candidate mine{negative_infinity(), NO_ROW};
  for (int i = threadIdx.x; i < blocks; i += GEMM_THREADS) mine = better(mine, candidates[i]);
  mine = block_best<GEMM_THREADS>(mine);
  const int token = HEAD_FIRST + (mine.row == NO_ROW ? 0 : mine.row);
  const EmbeddingRow row(embedding, token);
  for (int k = threadIdx.x; k < HIDDEN; k += GEMM_THREADS) residual[k] = row[k];
  if (threadIdx.x != 0) return;
  const int step = step_state ? step_state->step + 1 : 0;
  tokens_out[step] = token;
  const int hidden = *status;
  status_out[step] = hidden != FINITE || is_finite(mine.logit) ? hidden : LOGITS_NOT_FINITE;
  if (step_state) {
    step_state->step = step;
    step_state->action.first += 1;
    step_state->fill[step_state->pages - 1] += 1;
  }
}
