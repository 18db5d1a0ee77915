// SPDX-License-Identifier: Apache-2.0
// The head over all action tokens of a pass with drafts, each of which gets the bits of a decode step.
//
// draft_norm: final RMSNorm of the rows that predict a token. draft_logits: their logits and each block's best
// rows. select_drafts: the best of all blocks, for the host, which compares them with the drafts.
// Compiled for a pass of action tokens alone; a pass with a frame calls them too, see `frame_tokens`.
//
//   residual    f32   [frame_tokens + ACTION_TOKENS][HIDDEN]
//   operand           token operand of HIDDEN k
//   status      i32   [ACTION_TOKENS], whether the hidden state is finite; NOT_LIVE of a row that fills up a tile
//   logits      f32   [ACTION_TOKENS][HEAD_ROWS]
//   candidates  [block][ACTION_TOKENS] (logit, row)
//   weights     bf16  tiles of [HEAD_ROWS rounded up to 16][HIDDEN]
//   tokens_out  page-locked host memory, [ACTION_TOKENS]; status_out: nonzero if a live row's hidden
//               state or one of its logits is not finite
#include "candidate.cuh"
#include "chunk_state.cuh"
#include "token_operand.cuh"

constexpr int NOT_LIVE = -1;

// Rows of the pass that predict a token: behind a frame its last token is the first of them.
__device__ __forceinline__ int predicting_rows(const ChunkState* state, int frame_tokens) {
  return state->action.count + (frame_tokens > 0);
}

extern "C" __global__ void __launch_bounds__(GEMM_THREADS)
    draft_norm(uint32* operand, int* status, Residual residual, const float* weight, int frame_tokens,
               const ChunkState* state) {
  __shared__ float scratch[GEMM_WARPS];
  using Row = ResidualRow<GEMM_THREADS>;
  let_successor_start();
  Row gain, row;
  gain.load(weight);
  wait_for_predecessor();
  const int token = blockIdx.x, behind = frame_tokens > 0;
  const bool live = token < predicting_rows(state, frame_tokens);
  row.load(residual, behind && token == 0 ? state->frame.count - 1 : frame_tokens + token - behind);
  const float scale = row.inverse_rms(scratch);
  if (threadIdx.x == 0)
    status[token] = !live ? NOT_LIVE : is_finite(scale) && scale > 0.0f ? FINITE : HIDDEN_NOT_FINITE;
#pragma unroll
  for (int i = 0; i < Row::MINE; ++i) {
    if (!Row::inside(i)) continue;
    store_operand(operand, token, 2 * Row::pair(i), row.value[i].x * scale * gain.value[i].x,
                  row.value[i].y * scale * gain.value[i].y);
  }
}

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    draft_logits(float* logits, Candidate* candidates, const uint32* operand, const Vec4* weights) {
  static_assert(GEMM_THREADS % (TOKENS * 8) == 0, "a thread finishes rows of one token only");
  extern __shared__ __align__(128) char shared[];
  __shared__ Candidate best[GEMM_THREADS];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, (HEAD_ROWS + TILE_ROWS - 1) / TILE_ROWS, HIDDEN / TILE_K, 0, 1);
  wait_for_predecessor();
  const auto tokens = gemm.take_operand(shared + GEMM_BYTES, operand, HIDDEN);
  Candidate mine{negative_infinity(), NO_ROW};
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float low, float high) {
    const int at = row_tile * TILE_ROWS + row;
    if (at < HEAD_ROWS) {
      logits[token * HEAD_ROWS + at] = low;
      mine = better(mine, candidate(low, at));
    }
    if (at + 8 < HEAD_ROWS) {
      logits[token * HEAD_ROWS + at + 8] = high;
      mine = better(mine, candidate(high, at + 8));
    }
  });
  best[threadIdx.x] = mine;
  __syncthreads();
  const int token = threadIdx.x;
  if (token >= TOKENS) return;
  mine = {negative_infinity(), NO_ROW};
  for (int first = token * 8; first < GEMM_THREADS; first += TOKENS * 8)
    for (int row = 0; row < 8; ++row) mine = better(mine, best[first + row]);
  candidates[blockIdx.x * TOKENS + token] = mine;
}

// Warp = one predicting row.
extern "C" __global__ void __launch_bounds__(TOKENS* WARP)
    select_drafts(int* tokens_out, int* status_out, const Candidate* candidates, int blocks,
                  const int* status) {
  let_successor_start();
  wait_for_predecessor();
  const int token = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  Candidate mine{negative_infinity(), NO_ROW};
  for (int block = lane; block < blocks; block += WARP) mine = better(mine, candidates[block * TOKENS + token]);
  mine = warp_best(mine);
  if (lane == 0) tokens_out[token] = HEAD_FIRST + (mine.row == NO_ROW ? 0 : mine.row);
  const int hidden = status[token];
  const int bad = __syncthreads_or(hidden != NOT_LIVE && (hidden != FINITE || !is_finite(mine.logit)));
  if (threadIdx.x == 0) *status_out = bad;
}
