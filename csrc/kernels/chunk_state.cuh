// SPDX-License-Identifier: Apache-2.0
// What changes from chunk to chunk, in device memory, so that the captured graphs never change.
// The layout is repeated as a NumPy dtype in vla_edge_ros/engines/cuda/plan/chunk_state.py.
#pragma once

// The last of `pages` are those that this pass writes: the frame's page, where it has frame tokens, then the
// action's, where it has action tokens. Its live rows go to the slots from `first` on. `base` is the rank of
// a page's slot 0: the fills of the pages before it, added up.
struct LiveRows {
  int count, first;
};

struct ChunkState {
  int pages;
  LiveRows frame, action;
  int step;  // action tokens chosen so far in single steps; where the next one is written in the result
  int page[MAX_PAGES];
  int fill[MAX_PAGES];
  int base[MAX_PAGES];
};

constexpr int WRITTEN_PAGES = (FRAME_TOKENS > 0) + (ACTION_TOKENS > 0);

// The entry of the page list that a token's key and value go to, the slot in that page, and whether the token
// is one at all or fills up its tile.
struct TokenPlace {
  int entry, slot;
  bool live;
};

__device__ __forceinline__ TokenPlace place_of(const ChunkState* state, int token) {
  if (token < FRAME_TOKENS)
    return {state->pages - WRITTEN_PAGES, state->frame.first + token, token < state->frame.count};
  token -= FRAME_TOKENS;
  return {state->pages - 1, state->action.first + token, token < state->action.count};
}
