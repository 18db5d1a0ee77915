// SPDX-License-Identifier: Apache-2.0
// One warp's private stream of weight tiles from global into shared memory, a few stages ahead of their use.
//
// Each lane copies 16 bytes of each tile and reads back the same 16 bytes, so nothing has to be synchronised,
// not even inside the warp: a lane waits for its own copies. Works the same from sm_80 on. (Bulk copies with
// an mbarrier a stage were 2 to 6 % slower a layer on an H200: docs/engine-log.md.)
#pragma once
#include "mma.cuh"

// STAGE_TILES, STAGES: tiles a copy and copies in flight, chosen for each projection by projection.py.
constexpr int STAGE_LANE_VECS = STAGE_TILES * WARP;

// The k tiles [first, first + count) of every row tile that this warp multiplies.
struct WarpSlice {
  int first, count;
};

class WeightStream {
 public:
  static constexpr int BYTES = STAGES * STAGE_TILES * TILE_BYTES;  // shared memory a warp

  // `weights`: [row tile][k_tiles][tile]; row tiles tile, tile + tile_step, ... below tile_end are streamed.
  __device__ __forceinline__ WeightStream(Vec4* ring, const Vec4* weights, int k_tiles, WarpSlice slice,
                                          int tile, int tile_step, int tile_end)
      : ring_(ring + threadIdx.x % WARP), slice_(slice), k_(0), row_left_(0), issued_(0), consumed_(0) {
    source_ = weights + ((uint64)tile * k_tiles + slice.first) * WARP + threadIdx.x % WARP;
    row_stride_ = tile_step * k_tiles * WARP;
    if (slice.count > 0 && tile < tile_end) row_left_ = (tile_end - tile + tile_step - 1) / tile_step;
  }

  __device__ __forceinline__ void fill() {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) issue();
  }

  // This lane's pieces of the oldest stage, once they have landed: tile i is at [i * WARP].
  __device__ __forceinline__ const Vec4* wait() {
    copy_async_wait<STAGES - 1>();
    return ring_ + consumed_ * STAGE_LANE_VECS;
  }

  // Give the oldest stage back and let the next tiles flow into it.
  __device__ __forceinline__ void advance() {
    consumed_ = consumed_ + 1 == STAGES ? 0 : consumed_ + 1;
    issue();
  }

 private:
  __device__ __forceinline__ void issue() {
    if (row_left_ > 0) {
      Vec4* slot = ring_ + issued_ * STAGE_LANE_VECS;
#pragma unroll
      for (int i = 0; i < STAGE_TILES; ++i)
        if (k_ + i < slice_.count) copy16_async(slot + i * WARP, source_ + (k_ + i) * WARP);
      k_ += STAGE_TILES;
      if (k_ >= slice_.count) {
        k_ = 0;
        source_ += row_stride_;
        --row_left_;
      }
    }
    copy_async_commit();  // also where nothing was issued: stages are counted in groups
    issued_ = issued_ + 1 == STAGES ? 0 : issued_ + 1;
  }

  Vec4* ring_;
  const Vec4* source_;
  int row_stride_;
  WarpSlice slice_;
  int k_, row_left_, issued_, consumed_;
};
