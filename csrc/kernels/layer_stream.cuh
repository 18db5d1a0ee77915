// SPDX-License-Identifier: Apache-2.0
// The weights of all layers as one warp of a persistent kernel takes them, in one ring: what it has asked for
// arrives while its block waits for others.
#pragma once
#include "projection_tiling.cuh"

constexpr int PHASES = 4;

// A warp's share of one projection; the same in all layers.
struct Share {
  const uint8 *tiles, *scales;  // of lane 0 in layer 0
  uint64 layer_stride;          // bytes
  int units, first, count;      // row tiles; the first tile in each, and how many
  int unit_stride, scale_stride;  // bytes
};

template <class C>
__device__ __forceinline__ void describe(Share& share, const uint8* weights, uint64 layer_stride, int warp) {
  const int begin = C::begin(warp);
  share.first = C::first_tile() + begin;
  share.count = C::begin(warp + 1) - begin;
  share.units = share.count > 0 ? C::units() : 0;
  share.tiles = weights + ((uint64)C::column() * C::K_TILES + share.first) * TILE_BYTES;
  share.unit_stride = C::ACROSS * C::K_TILES * TILE_BYTES;
  constexpr int SCALES = WeightRing::scale_bytes(C::K_TILES);
  share.scales = weights + (uint64)C::ROW_TILES * C::K_TILES * TILE_BYTES + C::column() * SCALES;
  share.scale_stride = C::ACROSS * SCALES;
  share.layer_stride = layer_stride;
}

class LayerStream {
 public:
  // `shares`: this warp's, by phase.
  __device__ __forceinline__ LayerStream(Vec4* ring, const Share* shares) : ring_(ring), share_(shares - 1) {
    enter_next();
  }

  __device__ __forceinline__ void fill() {
#pragma unroll 1
    for (int stage = 0; stage < STAGES; ++stage) issue(stage);
  }

  // The oldest stage, once it has landed.
  __device__ __forceinline__ const Vec4* wait() {
    if (DEFERRED_STAGES == 0 || deferred_ == 0)
      copy_async_wait<STAGES - 1>();
    else
      wait_deferred<1>();
    return ring_.tiles(oldest_);
  }
  __device__ __forceinline__ RowScales row_scales() const { return ring_.row_scales(oldest_); }
  __device__ __forceinline__ RowScales group_scales(int first, int i) const {
    return ring_.group_scales(oldest_, first, i);
  }

  // Give it back, once it is in registers, and ask for the next tiles: at once, or in resume().
  __device__ __forceinline__ void advance(bool defer) {
    if (defer)
      ++deferred_;
    else
      issue(oldest_);
    oldest_ = oldest_ + 1 == STAGES ? 0 : oldest_ + 1;
  }

  // The next stage when those before have landed, where `paced`: what queues at the memory delays what the block
  // waits for at its barrier.
  __device__ __forceinline__ void resume(bool paced) {
#pragma unroll 1
    for (bool first = true; deferred_ > 0; --deferred_, first = false) {
      if (paced && !first) copy_async_wait<0>();
      issue(oldest_ >= deferred_ ? oldest_ - deferred_ : oldest_ - deferred_ + STAGES);
    }
  }

 private:
  // With `deferred_` stages not asked for, fewer groups may be on their way.
  template <int DEFERRED>
  __device__ __forceinline__ void wait_deferred() {
    if constexpr (DEFERRED >= STAGES) {
      copy_async_wait<0>();
    } else {
      if (deferred_ == DEFERRED)
        copy_async_wait<STAGES - 1 - DEFERRED>();
      else
        wait_deferred<DEFERRED + 1>();
    }
  }

  __device__ __forceinline__ void issue(int stage) {
    if (left_ > 0) {
      ring_.copy(stage, source_, left_, scales_, first_);
      source_ += STAGE_TILES * WARP;
      first_ += STAGE_TILES;
      left_ -= STAGE_TILES;
      if (left_ <= 0) enter_unit();
    }
    copy_async_commit();  // also at the end: stages are counted in groups
  }

  __device__ __forceinline__ void enter_unit() {
    if (--units_left_ == 0) {
      enter_next();
      return;
    }
    source_ += unit_jump_;
    scales_ += scale_jump_;
    first_ = share_->first;
    left_ = share_->count;
  }

  // The next phase of which this warp has a share; at the end left_ stays 0.
  __device__ __forceinline__ void enter_next() {
    left_ = 0;
    do {
      ++share_;
      if (++phase_ == PHASES) {
        phase_ = 0;
        share_ -= PHASES;
        if (++layer_ == LAYERS) return;
      }
      units_left_ = share_->units;
    } while (units_left_ == 0);
    const uint64 to_layer = layer_ * share_->layer_stride;
    source_ = (const Vec4*)(share_->tiles + to_layer) + threadIdx.x % WARP;
    first_ = share_->first;
    left_ = share_->count;
    const int whole_stages = (left_ + STAGE_TILES - 1) / STAGE_TILES;
    unit_jump_ = (share_->unit_stride / TILE_BYTES - whole_stages * STAGE_TILES) * WARP;
    if (STAGE_SCALES > 0) {
      scales_ = (const uint32*)(share_->scales + to_layer) + WeightRing::lane_scale();
      scale_jump_ = share_->scale_stride / 4;
    }
  }

  WeightRing ring_;
  const Share* share_;
  const Vec4* source_;
  const uint32* scales_ = nullptr;
  int phase_ = -1, layer_ = 0, units_left_ = 0, first_ = 0, left_ = 0, unit_jump_ = 0, scale_jump_ = 0;
  int oldest_ = 0, deferred_ = 0;
};
