// SPDX-License-Identifier: Apache-2.0
// The tiling of one projection of a persistent kernel over blocks and warps: what projection_tiling.py plans
// and skinny_gemm.cuh does.
#pragma once
#include "weight_stream.cuh"

__host__ __device__ constexpr int at_most(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

// CHAIN_TILES: tiles after which skinny_gemm.cuh begins again to alternate between its two sums.
template <int ROW_TILES_, int K_STEPS, int SPLIT_K, int CHAIN_TILES_>
struct ProjectionTiling {
  static constexpr int ROW_TILES = ROW_TILES_, CHAIN_TILES = CHAIN_TILES_;
  static constexpr int K_TILES = K_STEPS / TILE_STEPS;
  static constexpr int MOST_TILES = divided_up(divided_up(K_TILES, SPLIT_K), GEMM_WARPS);  // of a warp
  static constexpr int FEWEST_TILES = K_TILES / SPLIT_K / GEMM_WARPS;
  static constexpr int STAGES_A_UNIT = divided_up(MOST_TILES, STAGE_TILES);
  static constexpr int ACROSS = at_most(ROW_TILES, BLOCKS / SPLIT_K > 1 ? BLOCKS / SPLIT_K : 1);
  static constexpr int ACTIVE = ACROSS * SPLIT_K;  // blocks
  static constexpr int MOST_UNITS = divided_up(ROW_TILES, ACROSS);
  static_assert(ACTIVE <= BLOCKS, "each split of k has a block");

  __device__ __forceinline__ static int k_split() { return blockIdx.x / ACROSS; }
  __device__ __forceinline__ static int column() { return blockIdx.x % ACROSS; }
  __device__ __forceinline__ static int units() {
    return k_split() < SPLIT_K ? (ROW_TILES - column() + ACROSS - 1) / ACROSS : 0;
  }
  __device__ __forceinline__ static int row_tile(int unit) { return column() + unit * ACROSS; }
  __device__ __forceinline__ static int first_tile() { return K_TILES * k_split() / SPLIT_K; }
  __device__ __forceinline__ static int tile_count() { return K_TILES * (k_split() + 1) / SPLIT_K - first_tile(); }
  __device__ __forceinline__ static int unit_of(int row_tile) { return (row_tile - column()) / ACROSS; }
  // Tiles of a warp, from the split's first on.
  __device__ __forceinline__ static int begin(int warp) { return tile_count() * warp / GEMM_WARPS; }
};
