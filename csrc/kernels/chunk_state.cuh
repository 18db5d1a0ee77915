// SPDX-License-Identifier: Apache-2.0
// What changes from chunk to chunk, in device memory, so that the captured graphs never change.
// The layout is repeated as a NumPy dtype in vla_edge_ros/engines/cuda/chunk_state.py.
#pragma once

// The last of `pages` is the one that this pass writes: its `tokens` live rows go to the slots from
// `first_slot` on. `base` is the rank of a page's slot 0: the fills of the pages before it, added up.
struct ChunkState {
  int pages;
  int tokens;
  int first_slot;
  int step;  // action tokens chosen so far; where the next one is written in the result
  int page[MAX_PAGES];
  int fill[MAX_PAGES];
  int base[MAX_PAGES];
};
