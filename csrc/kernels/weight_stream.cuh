// SPDX-License-Identifier: Apache-2.0
// One warp's private stream of weight tiles from global into shared memory, a few stages ahead of their use.
//
// Each lane copies 16 bytes of each tile and reads back the same 16 bytes, so nothing has to be synchronised,
// not even inside the warp: a lane waits for its own copies. Works the same from sm_80 on. (Bulk copies with
// an mbarrier a stage were 2 to 6 % slower a layer on an H200: docs/engine-log.md.) The scales of integers
// come with the tiles, so that they cost no round trip of their own; each lane copies those of the two rows
// that it needs itself, again to have nothing to synchronise.
#pragma once
#include "weight_format.cuh"

// STAGE_TILES, STAGES: tiles a copy and copies in flight, chosen for each projection by projection.py.
// Scales a lane has in a stage, of 4 bytes: two float32 of int8 rows, or two bfloat16 for each group that
// STAGE_TILES tiles can touch.
constexpr int STAGE_SCALES = WEIGHT_BITS == 8   ? 2
                             : WEIGHT_BITS == 4 ? (STAGE_TILES + GROUP_TILES - 2) / GROUP_TILES + 1
                                                : 0;
constexpr int STAGE_BYTES = STAGE_TILES * TILE_BYTES + STAGE_SCALES * WARP * 4;
constexpr int STAGE_LANE_VECS = STAGE_BYTES / 16;

template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(shared)), "l"(global),
               "n"(BYTES)
               : "memory");
}

// The weight tiles [first, first + count) of every row tile that this warp multiplies.
struct WarpSlice {
  int first, count;
};

class WeightStream {
 public:
  static constexpr int BYTES = STAGES * STAGE_BYTES;  // shared memory a warp

  // `weights`: [row tile][k_tiles][tile], then the scales of all `tile_end` row tiles: for int8
  // [row tile][lane / 4][rows lane / 4 and lane / 4 + 8], for int4 [row tile][group][the same].
  // Row tiles tile, tile + tile_step, ... below tile_end are streamed.
  __device__ __forceinline__ WeightStream(Vec4* ring, const Vec4* weights, int k_tiles, WarpSlice slice,
                                          int tile, int tile_step, int tile_end)
      : ring_(ring + threadIdx.x % WARP), slice_(slice), k_(0), row_left_(0), oldest_(0) {
    source_ = weights + ((uint64)tile * k_tiles + slice.first) * WARP + threadIdx.x % WARP;
    const int stages = (slice.count + STAGE_TILES - 1) / STAGE_TILES;
    row_jump_ = (tile_step * k_tiles - stages * STAGE_TILES) * WARP;
    if (STAGE_SCALES > 0) {
      const int row_scales = 8 * (WEIGHT_BITS == 8 ? 2 : (k_tiles + GROUP_TILES - 1) / GROUP_TILES);
      scales_ = (const uint32*)(weights + (uint64)tile_end * k_tiles * WARP) + tile * row_scales +
                threadIdx.x % WARP / 4 * LANE_SCALES;
      scale_stride_ = tile_step * row_scales;
    }
    if (slice.count > 0 && tile < tile_end) row_left_ = (tile_end - tile + tile_step - 1) / tile_step;
  }

  __device__ __forceinline__ void fill() {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) issue(stage);
  }

  // This lane's pieces of the oldest stage, once they have landed: tile i is at [i * WARP].
  __device__ __forceinline__ const Vec4* wait() {
    copy_async_wait<STAGES - 1>();
    return ring_ + oldest_ * STAGE_LANE_VECS;
  }

  // int8, of the stage that wait() returned.
  __device__ __forceinline__ RowScales row_scales() const {
    const float2 both = *(const float2*)stage_scales(oldest_);
    return {both.x, both.y};
  }

  // int4, of that stage's tile i, where `first` is the number of its first tile in the whole row.
  __device__ __forceinline__ RowScales group_scales(int first, int i) const {
    static_assert(WEIGHT_BITS != 4 || GROUP_TILES == 2);
    const int group = i / 2 + (i % 2 ? first % 2 : 0);  // (first % 2 + i) / 2, constant for half of the tiles
    const uint32 both = stage_scales(oldest_)[group * WARP];
    return {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u)};
  }

  // Give the oldest stage back and let the next tiles flow into it.
  __device__ __forceinline__ void advance() {
    issue(oldest_);
    oldest_ = oldest_ + 1 == STAGES ? 0 : oldest_ + 1;
  }

 private:
  static constexpr int LANE_SCALES = WEIGHT_BITS == 8 ? 2 : 1;  // neighbours in memory

  // This lane's scales of a stage.
  __device__ __forceinline__ uint32* stage_scales(int stage) const {
    const int lane = threadIdx.x % WARP;
    return (uint32*)(ring_ + stage * STAGE_LANE_VECS - lane + STAGE_TILES * WARP) + lane * LANE_SCALES;
  }

  __device__ __forceinline__ void issue(int stage) {
    if (row_left_ > 0) {
      // Whole stages, nearly all of them, are copied without a question before each tile.
      if (k_ + STAGE_TILES <= slice_.count)
        copy_stage(stage, STAGE_TILES);
      else
        copy_stage(stage, slice_.count - k_);
      k_ += STAGE_TILES;
      source_ += STAGE_TILES * WARP;
      if (k_ >= slice_.count) {
        k_ = 0;
        source_ += row_jump_;
        scales_ += scale_stride_;
        --row_left_;
      }
    }
    copy_async_commit();  // also where nothing was issued: stages are counted in groups
  }

  __device__ __forceinline__ void copy_stage(int stage, int tiles) const {
    Vec4* slot = ring_ + stage * STAGE_LANE_VECS;
#pragma unroll
    for (int i = 0; i < STAGE_TILES; ++i)
      if (i < tiles) copy16_async(slot + i * WARP, source_ + i * WARP);
    if (WEIGHT_BITS == 8) copy_async<8>(stage_scales(stage), scales_);
    if (WEIGHT_BITS == 4) {
      const int first = slice_.first + k_, group = first / GROUP_TILES;
      uint32* scales = stage_scales(stage);
#pragma unroll
      for (int i = 0; i < STAGE_SCALES; ++i)
        // The first half of a whole stage's groups is touched wherever it begins.
        if ((tiles == STAGE_TILES && i < (STAGE_TILES + 1) / 2) || (group + i) * GROUP_TILES < first + tiles)
          copy_async<4>(scales + i * WARP, scales_ + group * 8 + i * 8);
    }
  }

  Vec4* ring_;
  const Vec4* source_;
  const uint32* scales_ = nullptr;
  int row_jump_, scale_stride_ = 0;
  WarpSlice slice_;
  int k_, row_left_, oldest_;
};
