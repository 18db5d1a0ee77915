// SPDX-License-Identifier: Apache-2.0
// What becomes of two rows of the QKV product: rotary position inside the page, and their place.
//
//   queries       f32   [TOKENS][HEADS * HEAD_DIM], not rotated
//   keys, values  bf16  this layer's pages [page][KV head][key_offset / value_offset] (kv_page.cuh)
//   rotary        f32   [slot - first_slot][HEAD_DIM / 2] (cos, sin)
//
// A row tile holds 8 dims of a head's lower half and the 8 dims HEAD_DIM / 2 above them, so that the thread
// which finishes a pair of rows can rotate it.
// A key is stored rotated by its offset in the page only, once and for ever; attention turns the query by
// the page's base rank instead, so pages can be dropped before it without touching it.
#pragma once
#include "chunk_state.cuh"
#include "kv_page.cuh"

constexpr int QKV_ROW_TILES = (HEADS + 2 * KV_HEADS) * HEAD_DIM / TILE_ROWS;
constexpr int HEAD_TILES = HEAD_DIM / TILE_ROWS;

// Where a token's key and value go; `page` counts in the cache.
struct KeyPlace {
  int page, slot;
  bool live;
};

__device__ __forceinline__ KeyPlace key_place(const ChunkState* state, int token) {
  const TokenPlace place = place_of(state, token);
  return {state->page[place.entry], place.slot, place.live};
}

// Of a row tile: the rows' dimension in its head, counted from `row` 0 on.
__device__ __forceinline__ int first_dim(int row_tile) { return row_tile % HEAD_TILES * 8; }

__device__ __forceinline__ bool holds_keys(int row_tile) {
  const int head = row_tile / HEAD_TILES;
  return head >= HEADS && head < HEADS + KV_HEADS;
}

struct QkvRows {
  float* queries;
  uint16 *keys, *values;
  const float2* rotary;
  int first_slot;
  const ChunkState* state;

  // Rows `row` and `row` + 8 of a row tile, bias added, for one token.
  __device__ __forceinline__ void store(int row_tile, int row, int token, float low, float high) const {
    const KeyPlace place = key_place(state, token);
    store(row_tile, row, token, place, turn_of(row_tile, row, place), low, high);
  }

  // What a row of keys is turned by.
  __device__ __forceinline__ const float2* turn_of(int row_tile, int row, const KeyPlace& place) const {
    return rotary + (place.slot - first_slot) * (HEAD_DIM / 2) + first_dim(row_tile) + row;
  }

  // The same; `turn` is read for keys only.
  __device__ __forceinline__ void store(int row_tile, int row, int token, const KeyPlace& place,
                                        const float2* turn, float low, float high) const {
    if (!place.live) return;
    const int head = row_tile / HEAD_TILES;
    const int dim = first_dim(row_tile) + row;
    if (head < HEADS) {
      float* query = queries + (token * HEADS + head) * HEAD_DIM;
      query[dim] = low;
      query[dim + HEAD_DIM / 2] = high;
      return;
    }
    const int kv_head = (head - HEADS) % KV_HEADS;
    const uint64 at = ((uint64)place.page * KV_HEADS + kv_head) * PAGE_SLOTS * HEAD_DIM;
    if (holds_keys(row_tile)) {
      keys[at + key_offset(place.slot, dim)] = float_to_bf16(turned(low, turn->x, -high, turn->y));
      keys[at + key_offset(place.slot, dim + HEAD_DIM / 2)] =
          float_to_bf16(turned(high, turn->x, low, turn->y));
    } else {
      values[at + value_offset(place.slot, dim)] = float_to_bf16(low);
      values[at + value_offset(place.slot, dim + HEAD_DIM / 2)] = float_to_bf16(high);
    }
  }
};
