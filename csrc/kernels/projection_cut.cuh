// SPDX-License-Identifier: Apache-2.0
// How one projection of a persistent kernel is dealt out to blocks and warps: what projection.py plans and
// skinny_gemm.cuh does.
#pragma once
#include "weight_stream.cuh"

__host__ __device__ constexpr int at_most(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

// CHAIN_TILES: tiles after which skinny_gemm.cuh begins again to alternate between its two sums.
template <int ROW_TILES_, int K_STEPS, int PARTS, int CHAIN_TILES_>
struct Cut {
  static constexpr int ROW_TILES = ROW_TILES_, CHAIN_TILES = CHAIN_TILES_;
  static constexpr int K_TILES = K_STEPS / TILE_STEPS;
  static constexpr int MOST_TILES = divided_up(divided_up(K_TILES, PARTS), GEMM_WARPS);  // of a warp
  static constexpr int FEWEST_TILES = K_TILES / PARTS / GEMM_WARPS;
  static constexpr int STAGES_A_UNIT = divided_up(MOST_TILES, STAGE_TILES);
  static constexpr int ACROSS = at_most(ROW_TILES, BLOCKS / PARTS > 1 ? BLOCKS / PARTS : 1);
  static constexpr int ACTIVE = ACROSS * PARTS;  // blocks
  static constexpr int MOST_UNITS = divided_up(ROW_TILES, ACROSS);
  static_assert(ACTIVE <= BLOCKS, "each part has a block");

  __device__ __forceinline__ static int part() { return blockIdx.x / ACROSS; }
  __device__ __forceinline__ static int column() { return blockIdx.x % ACROSS; }
  __device__ __forceinline__ static int units() {
    return part() < PARTS ? (ROW_TILES - column() + ACROSS - 1) / ACROSS : 0;
  }
  __device__ __forceinline__ static int row_tile(int unit) { return column() + unit * ACROSS; }
  __device__ __forceinline__ static int first_tile() { return K_TILES * part() / PARTS; }
  __device__ __forceinline__ static int tile_count() { return K_TILES * (part() + 1) / PARTS - first_tile(); }
  __device__ __forceinline__ static int unit_of(int row_tile) { return (row_tile - column()) / ACROSS; }
  // Tiles of a warp, from the part's first on.
  __device__ __forceinline__ static int begin(int warp) { return tile_count() * warp / GEMM_WARPS; }
};
