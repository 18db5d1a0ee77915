// SPDX-License-Identifier: Apache-2.0
// One warp's private stream of weight tiles from global into shared memory, a few stages ahead of their use.
//
// The ring belongs to one warp, so a stage is refilled by the warp that emptied it, and no barrier between
// warps is needed; a ring shared by warps with parity waits would let one a lap ahead read stale data.
// On sm_90 and later one lane issues bulk copies that report to an mbarrier a stage; before that each lane
// copies, and later reads, its own 16 bytes of each tile.
#pragma once
#include "mma.cuh"

#ifndef BULK_COPY
#define BULK_COPY (__CUDA_ARCH__ >= 900)
#endif

// STAGE_TILES, STAGES: tiles a copy (up to 6, 3 KB: long enough for the copy engine, short enough to keep the
// ring full) and copies in flight, chosen for each projection by sizes.py.
constexpr int STAGE_LANE_VECS = STAGE_TILES * WARP;

// The k tiles [first, first + count) of every row tile that this warp multiplies.
struct WarpSlice {
  int first, count;
};

class WeightStream {
 public:
  static constexpr int BYTES = STAGES * STAGE_TILES * TILE_BYTES;  // shared memory a warp

  // `weights`: [row tile][k_tiles][tile]; row tiles tile, tile + tile_step, ... below tile_end are streamed.
  __device__ __forceinline__ WeightStream(Vec4* ring, uint64* arrived, const Vec4* weights, int k_tiles,
                                          WarpSlice slice, int tile, int tile_step, int tile_end)
      : ring_(ring), arrived_(arrived), lane_(threadIdx.x % WARP), slice_(slice), k_(0), row_left_(0), issued_(0),
        consumed_(0) {
    source_ = weights + ((uint64)tile * k_tiles + slice.first) * WARP;
    row_stride_ = tile_step * k_tiles * WARP;
    if (slice.count > 0 && tile < tile_end) row_left_ = (tile_end - tile + tile_step - 1) / tile_step;
#if BULK_COPY
    if (lane_ == 0) {
      for (int stage = 0; stage < STAGES; ++stage)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrived_ + stage)));
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
#endif
  }

  __device__ __forceinline__ void fill() {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) issue();
  }

  // The oldest stage, once it has landed: tile i of lane l is at [i * WARP + l].
  __device__ __forceinline__ const Vec4* wait() {
    const int stage = consumed_ % STAGES;
#if BULK_COPY
    const uint32 barrier = shared_address(arrived_ + stage);
    const uint32 parity = (consumed_ / STAGES) & 1;
    uint32 done;
    do {
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(barrier), "r"(parity)
          : "memory");
    } while (!done);
#else
    copy_async_wait<STAGES - 1>();
#endif
    return ring_ + stage * STAGE_LANE_VECS;
  }

  // Give the oldest stage back and let the next tiles flow into it.
  __device__ __forceinline__ void advance() {
    ++consumed_;
#if BULK_COPY
    __syncwarp();  // every lane has read the stage before the copy engine writes it again
#endif
    issue();
  }

 private:
  __device__ __forceinline__ void issue() {
    if (row_left_ > 0) {
      const int tiles = min(STAGE_TILES, slice_.count - k_);
      const int stage = issued_ % STAGES;
      Vec4* slot = ring_ + stage * STAGE_LANE_VECS;
#if BULK_COPY
      if (lane_ == 0) {
        const uint32 barrier = shared_address(arrived_ + stage);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(tiles * TILE_BYTES)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_address(slot)),
            "l"(source_ + k_ * WARP), "r"(tiles * TILE_BYTES), "r"(barrier)
            : "memory");
      }
#else
      for (int i = 0; i < tiles; ++i) copy16_async(slot + i * WARP + lane_, source_ + (k_ + i) * WARP + lane_);
#endif
      k_ += tiles;
      if (k_ == slice_.count) {
        k_ = 0;
        source_ += row_stride_;
        --row_left_;
      }
    }
#if !BULK_COPY
    copy_async_commit();  // also where nothing was issued: stages are counted in groups
#endif
    ++issued_;
  }

  Vec4* ring_;
  uint64* arrived_;
  const Vec4* source_;
  int lane_, row_stride_;
  WarpSlice slice_;
  int k_, row_left_, issued_, consumed_;
};
