// SPDX-License-Identifier: Apache-2.0
// Where a persistent kernel's time goes: thread 0 of each block writes down its clock at points of a layer,
// in a build with PHASE_TIMES (vla_edge_ros/bench/kernels/decode_phases.py). Elsewhere nothing is left of it.
#pragma once
#include "common.cuh"

enum PhasePoint {
  LAYER_BEGUN,
  PAST_DOWN,
  QKV_NORMED,
  QKV_MULTIPLIED,
  QKV_STORED,
  PAST_QKV,
  QUERIES_LOADED,
  SCORED,
  VALUES_ADDED,
  KEY_WARPS_MERGED,
  PAST_ATTENTION,
  SPLITS_MERGED,
  OUTPUT_MULTIPLIED,
  OUTPUT_STORED,
  PAST_OUTPUT,
  GATE_UP_NORMED,
  GATE_UP_MULTIPLIED,
  GATE_UP_STORED,
  PAST_GATE_UP,
  DOWN_MULTIPLIED,
  DOWN_STORED,
  PHASE_POINTS
};

class PhaseClock {
 public:
#ifdef PHASE_TIMES
  // `times`: [block][LAYERS][PHASE_POINTS] cycles of the block's multiprocessor
  __device__ __forceinline__ PhaseClock(uint64* times, int layer)
      : times_(times + ((uint64)blockIdx.x * LAYERS + layer) * PHASE_POINTS) {}
  __device__ __forceinline__ void mark(int point) const {
    if (threadIdx.x == 0) times_[point] = clock64();
  }

 private:
  uint64* times_;
#else
  __device__ __forceinline__ PhaseClock(uint64*, int) {}
  __device__ __forceinline__ void mark(int) const {}
#endif
};
