// SPDX-License-Identifier: Apache-2.0
// The float32 residual stream, and its normalised copy that a projection multiplies.
//
// A split-K projection leaves one partial sum for each split. The consumer adds them to the residual,
// in order: every block of a decode step does so for itself (24 KB from L2, while its weights arrive), and
// block 0 writes the sum into the other of two residual buffers, for the next consumer.
#pragma once
#include "common.cuh"

struct Residual {
  const float* stream;    // [token][HIDDEN]
  const float* partials;  // [split][token][HIDDEN]
  int split_k;
  int split_stride;  // floats from one split to the next
};

// One thread's share of a row of HIDDEN, as pairs, in a block of THREADS.
template <int THREADS>
struct ResidualRow {
  static constexpr int PAIRS = HIDDEN / 2;
  static constexpr int MINE = (PAIRS + THREADS - 1) / THREADS;
  float2 value[MINE];

  __device__ __forceinline__ static int pair(int i) { return i * THREADS + threadIdx.x; }
  __device__ __forceinline__ static bool inside(int i) { return PAIRS % THREADS == 0 || pair(i) < PAIRS; }

  __device__ __forceinline__ void load(const float* row) {
#pragma unroll
    for (int i = 0; i < MINE; ++i) value[i] = inside(i) ? ((const float2*)row)[pair(i)] : float2{0.0f, 0.0f};
  }

  __device__ __forceinline__ void load(const Residual& residual, int token) {
    load(residual.stream + token * HIDDEN);
    add_partials(residual, token);
  }

  __device__ __forceinline__ void add_partials(const Residual& residual, int token) {
    const float* partial = residual.partials + token * HIDDEN;
#pragma unroll 4
    for (int split = 0; split < residual.split_k; ++split) {
#pragma unroll
      for (int i = 0; i < MINE; ++i) {
        if (!inside(i)) continue;
        const float2 more = ((const float2*)(partial + split * residual.split_stride))[pair(i)];
        value[i].x += more.x;
        value[i].y += more.y;
      }
    }
  }

  __device__ __forceinline__ void store(float* row) const {
#pragma unroll
    for (int i = 0; i < MINE; ++i)
      if (inside(i)) ((float2*)row)[pair(i)] = value[i];
  }

  // The row times `scale` times `gain` as bfloat16 pairs, [HIDDEN / 2], and as many rests behind them.
  __device__ __forceinline__ void split(uint32* pairs, const ResidualRow& gain, float scale) const {
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
      if (!inside(i)) continue;
      pairs[pair(i)] = split_bf16(value[i].x * scale * gain.value[i].x, value[i].y * scale * gain.value[i].y,
                                  pairs[PAIRS + pair(i)]);
    }
  }

  // RMSNorm's factor 1 / sqrt(mean of squares + epsilon).
  __device__ __forceinline__ float inverse_rms(float* scratch) const {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
      squares = __fmaf_rn(value[i].x, value[i].x, squares);
      squares = __fmaf_rn(value[i].y, value[i].y, squares);
    }
    return rsqrtf(__fadd_rn(__fdiv_rn(block_sum<THREADS / WARP>(squares, scratch), HIDDEN), RMS_EPSILON));
  }
};
