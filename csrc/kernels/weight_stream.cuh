// SPDX-License-Identifier: Apache-2.0
// One warp's private stream of weight tiles from global into shared memory, a few stages ahead of their use.
//
// Each lane copies 16 bytes of each tile and reads back the same 16 bytes, so nothing has to be synchronised,
// not even inside the warp: a lane waits for its own copies. Works the same from sm_80 on. (Bulk copies with
// an mbarrier a stage were 2 to 6 % slower a layer on an H200: docs/explanation/engine-log.md.) The scales of integers
// come with the tiles, so that they cost no round trip of their own; each lane copies those of the two rows
// that it needs itself, again to have nothing to synchronise.
#pragma once
#include "weight_format.cuh"

// STAGE_TILES, STAGES: tiles a copy and copies in flight, chosen for each projection by projection_tiling.py.
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

// A lane's share of the stages that one warp owns.
class WeightRing {
 public:
  __device__ __forceinline__ explicit WeightRing(Vec4* ring) : ring_(ring + threadIdx.x % WARP) {}

  // The first `tiles` of a stage, from this lane's piece of the first on. `scales`: those of the row tile,
  // for this lane; `first`: the number of the first tile in the whole row.
  __device__ __forceinline__ void copy(int stage, const Vec4* source, int tiles, const uint32* scales,
                                       int first) const {
    Vec4* slot = ring_ + stage * STAGE_LANE_VECS;
#pragma unroll
    for (int i = 0; i < STAGE_TILES; ++i)
      if (i < tiles) copy16_async(slot + i * WARP, source + i * WARP);
    if (WEIGHT_BITS == 8) copy_async<8>(stage_scales(stage), scales);
    if (WEIGHT_BITS == 4) {
      const int group = first / GROUP_TILES;
      uint32* to = stage_scales(stage);
#pragma unroll
      for (int i = 0; i < STAGE_SCALES; ++i)
        // The first half of a whole stage's groups is touched wherever it begins.
        if ((tiles == STAGE_TILES && i < (STAGE_TILES + 1) / 2) || (group + i) * GROUP_TILES < first + tiles)
          copy_async<4>(to + i * WARP, scales + group * 8 + i * 8);
    }
  }

  // This lane's piece of tile i is at [i * WARP].
  __device__ __forceinline__ const Vec4* tiles(int stage) const { return ring_ + stage * STAGE_LANE_VECS; }

  // int8
  __device__ __forceinline__ RowScales row_scales(int stage) const {
    const float2 both = *(const float2*)stage_scales(stage);
    return {both.x, both.y};
  }

  // int4, of a stage's tile i, where `first` is the number of its first tile in the whole row.
  __device__ __forceinline__ RowScales group_scales(int stage, int first, int i) const {
    static_assert(WEIGHT_BITS != 4 || GROUP_TILES == 2);
    const int group = i / 2 + (i % 2 ? first % 2 : 0);  // (first % 2 + i) / 2, constant for half of the tiles
    const uint32 both = stage_scales(stage)[group * WARP];
    return {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u)};
  }

  // Where the scales of a row tile begin for this lane, and bytes of one row tile's. They lie behind all
  // `row_tiles` tiles: for int8 [row tile][lane / 4][rows lane / 4 and lane / 4 + 8], for int4
  // [row tile][group][the same].
  __device__ __forceinline__ static const uint32* scales_of(const Vec4* weights, int row_tiles, int k_tiles,
                                                            int row_tile) {
    return (const uint32*)(weights + (uint64)row_tiles * k_tiles * WARP) +
           row_tile * (scale_bytes(k_tiles) / 4) + lane_scale();
  }
  __host__ __device__ static constexpr int scale_bytes(int k_tiles) {
    return 32 * (WEIGHT_BITS == 8 ? 2 : (k_tiles + GROUP_TILES - 1) / GROUP_TILES);
  }
  __device__ __forceinline__ static int lane_scale() { return threadIdx.x % WARP / 4 * LANE_SCALES; }

 private:
  static constexpr int LANE_SCALES = WEIGHT_BITS == 8 ? 2 : 1;  // neighbours in memory

  // This lane's scales of a stage.
  __device__ __forceinline__ uint32* stage_scales(int stage) const {
    const int lane = threadIdx.x % WARP;
    return (uint32*)(ring_ + stage * STAGE_LANE_VECS - lane + STAGE_TILES * WARP) + lane * LANE_SCALES;
  }

  Vec4* ring_;
};

// The weight tiles [first, first + count) of every row tile that this warp multiplies.
struct WarpSlice {
  int first, count;
};

class WeightStream {
 public:
  static constexpr int BYTES = STAGES * STAGE_BYTES;  // shared memory a warp

  // `weights`: [row tile][k_tiles][tile], then the scales of all `tile_end` row tiles.
  // Row tiles tile, tile + tile_step, ... below tile_end are streamed.
  __device__ __forceinline__ WeightStream(Vec4* ring, const Vec4* weights, int k_tiles, WarpSlice slice,
                                          int tile, int tile_step, int tile_end)
      : ring_(ring), slice_(slice), k_(0), row_left_(0), oldest_(0) {
    source_ = weights + ((uint64)tile * k_tiles + slice.first) * WARP + threadIdx.x % WARP;
    const int stages = (slice.count + STAGE_TILES - 1) / STAGE_TILES;
    row_jump_ = (tile_step * k_tiles - stages * STAGE_TILES) * WARP;
    if (STAGE_SCALES > 0) {
      scales_ = WeightRing::scales_of(weights, tile_end, k_tiles, tile);
      scale_stride_ = tile_step * (WeightRing::scale_bytes(k_tiles) / 4);
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
    return ring_.tiles(oldest_);
  }

  // int8 and int4, of the stage that wait() returned.
  __device__ __forceinline__ RowScales row_scales() const { return ring_.row_scales(oldest_); }
  __device__ __forceinline__ RowScales group_scales(int first, int i) const {
    return ring_.group_scales(oldest_, first, i);
  }

  // Give the oldest stage back and let the next tiles flow into it.
  __device__ __forceinline__ void advance() {
    issue(oldest_);
    oldest_ = oldest_ + 1 == STAGES ? 0 : oldest_ + 1;
  }

 private:
  __device__ __forceinline__ void issue(int stage) {
    if (row_left_ > 0) {
      // Whole stages, nearly all of them, are copied without a question before each tile.
      if (k_ + STAGE_TILES <= slice_.count)
        ring_.copy(stage, source_, STAGE_TILES, scales_, slice_.first + k_);
      else
        ring_.copy(stage, source_, slice_.count - k_, scales_, slice_.first + k_);
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

  WeightRing ring_;
  const Vec4* source_;
  const uint32* scales_ = nullptr;
  int row_jump_, scale_stride_ = 0;
  WarpSlice slice_;
  int k_, row_left_, oldest_;
};
