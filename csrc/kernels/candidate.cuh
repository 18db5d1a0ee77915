// SPDX-License-Identifier: Apache-2.0
// The best of the logits so far: ties go to the lowest row, whatever the order in which blocks finish.
#pragma once
#include "common.cuh"

struct Candidate {
  float logit;
  int row;
};

__device__ __forceinline__ Candidate better(Candidate a, Candidate b) {
  return b.logit > a.logit || (b.logit == a.logit && b.row < a.row) ? b : a;
}

constexpr int NO_ROW = 0x7fffffff;

// What is said of a token beside its id. Repeated in vla_edge_ros/engines/cuda/engine.py.
constexpr int FINITE = 0, HIDDEN_NOT_FINITE = 1, LOGITS_NOT_FINITE = 2;

// A logit that is not finite becomes infinity, which wins over all that are: the reduction that looks for the best
// one carries it to the end, where it is seen.
__device__ __forceinline__ Candidate candidate(float logit, int row) {
  return {is_finite(logit) ? logit : -negative_infinity(), row};
}

__device__ __forceinline__ Candidate warp_best(Candidate mine) {
#pragma unroll
  for (int mask = WARP / 2; mask > 0; mask /= 2) {
    const Candidate other{__shfl_xor_sync(ALL_LANES, mine.logit, mask),
                          __shfl_xor_sync(ALL_LANES, mine.row, mask)};
    mine = better(mine, other);
  }
  return mine;
}
