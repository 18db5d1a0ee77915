// SPDX-License-Identifier: Apache-2.0
// Elements of a row of the embedding, which is kept once, in the order the full-vocabulary head streams it.
//
// EMBEDDING_BITS  16: bfloat16; 8: int8, whose row scales follow the tiles of all EMBEDDING_TILES row tiles
#pragma once
#include "mma.cuh"

class EmbeddingRow {
 public:
  __device__ __forceinline__ EmbeddingRow(const uint8* embedding, int token) : row_(token % TILE_ROWS) {
    tiles_ = embedding + (uint64)(token / TILE_ROWS) * K_TILES * TILE_BYTES;
    if (EMBEDDING_BITS == 8) {
      const float* scales = (const float*)(embedding + (uint64)EMBEDDING_TILES * K_TILES * TILE_BYTES);
      scale_ = scales[token / TILE_ROWS * TILE_ROWS + row_ % 8 * 2 + row_ / 8];
    }
  }

  __device__ __forceinline__ float operator[](int k) const {
    const uint8* tile = tiles_ + k / EMBEDDING_TILE_K * TILE_BYTES;
    const int in_k = k % EMBEDDING_TILE_K;
    if (EMBEDDING_BITS == 16) return bf16_to_float(((const uint16*)tile)[weight_tile_offset(row_, in_k)]);
    const int lane = row_ % 8 * 4 + in_k % 8 / 2;
    return scale_ * (signed char)tile[lane * 16 + in_k / 8 * 4 + in_k % 2 * 2 + row_ / 8];
  }

 private:
  static constexpr int EMBEDDING_TILE_K = TILE_BYTES * 8 / (TILE_ROWS * EMBEDDING_BITS);
  static constexpr int K_TILES = HIDDEN / EMBEDDING_TILE_K;

  const uint8* tiles_;
  int row_;
  float scale_ = 0.0f;
};
