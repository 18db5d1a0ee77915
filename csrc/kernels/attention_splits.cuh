// SPDX-License-Identifier: Apache-2.0
// Softmax over pieces: each piece leaves its maximum (in units of log2), its sum and its weighted values.
#pragma once
#include "chunk_state.cuh"
#include "mma.cuh"

// A frame's rows and an action's are split differently, so that an action token's sum over the splits has the
// same order in every pass. Rows: first those of the frame, row = token * GROUP + query head in the group.
constexpr int GROUP = HEADS / KV_HEADS;
constexpr int FRAME_ROWS = FRAME_TOKENS * GROUP;
constexpr int QUERY_ROWS = TOKENS * GROUP;
constexpr int MORE_SPLITS = FRAME_SPLITS > ACTION_SPLITS ? FRAME_SPLITS : ACTION_SPLITS;
constexpr int SPLITS = FRAME_TOKENS == 0 ? ACTION_SPLITS : ACTION_TOKENS == 0 ? FRAME_SPLITS : MORE_SPLITS;

// Where one split's result for one row of one KV head lies, counted in rows.
__device__ __forceinline__ uint64 partial_row(int kv_head, int split, int row) {
  return ((uint64)kv_head * SPLITS + split) * QUERY_ROWS + row;
}

// The pages that a row sees: a frame's not the action's, which comes behind it.
__device__ __forceinline__ int pages_seen(const ChunkState* state, bool frame) {
  return state->pages - (frame && ACTION_TOKENS > 0 ? 1 : 0);
}

// Splits that have pages, of those dealt out in groups of KEY_WARPS.
__device__ __forceinline__ int splits_in_use(const ChunkState* state, bool frame) {
  return min(frame ? FRAME_SPLITS : ACTION_SPLITS, (pages_seen(state, frame) + KEY_WARPS - 1) / KEY_WARPS);
}

// The factor of split `lane` in the merged row; all lanes of a warp call this together. SPLITS <= 32.
__device__ __forceinline__ float split_factor(const float2* maximum_and_sum, int kv_head, int row,
                                              int splits) {
  const int lane = threadIdx.x % WARP;
  float2 mine{negative_infinity(), 0.0f};
  if (lane < splits) mine = maximum_and_sum[partial_row(kv_head, lane, row)];
  const float top = warp_max(mine.x);
  const float weight = mine.y > 0.0f ? exp2_fast(mine.x - top) : 0.0f;
  return weight / warp_sum(__fmul_rn(weight, mine.y));
}
