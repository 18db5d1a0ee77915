// SPDX-License-Identifier: Apache-2.0
// What becomes of two rows of the QKV product: rotary position inside the page, and their place.
//
//   queries       f32   [TOKENS][HEADS * HEAD_DIM], not rotated
//   keys, values        this layer's pages [page][KV head][PAGE_BYTES] (kv_page.cuh, kv_format.cuh)
//   rotary        f32   [slot - first_slot][HEAD_DIM / 2] (cos, sin)
//
// A row tile holds 8 dims of a head's lower half and the 8 dims HEAD_DIM / 2 above them, so that the thread
// which finishes a pair of rows can rotate it, and the eight threads that finish one token's rows of a tile,
// neighbours in a warp, can agree on a scale for their sixteen numbers.
// A key is stored rotated by its offset in the page only, once and for ever; attention turns the query by
// the page's base rank instead, so pages can be dropped before it without touching it.
#pragma once
#include "chunk_state.cuh"
#include "kv_format.cuh"

constexpr int QKV_ROW_TILES = (HEADS + 2 * KV_HEADS) * HEAD_DIM / TILE_ROWS;

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
  KeptNumber *keys, *values;
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
    const uint64 at = ((uint64)place.page * KV_HEADS + kv_head) * (PAGE_BYTES / (int)sizeof(KeptNumber));
    const int slot = place.slot, tile = row_tile % HEAD_TILES;
    if constexpr (KV_BITS == 8) {
      if (holds_keys(row_tile))
        keep_int8(keys + at, row, key_offset(slot, dim), key_offset(slot, dim + HEAD_DIM / 2),
                  key_scale_offset(slot, tile), turned(low, turn->x, -high, turn->y),
                  turned(high, turn->x, low, turn->y));
      else
        keep_int8(values + at, row, value_offset(slot, dim), value_offset(slot, dim + HEAD_DIM / 2),
                  value_scale_offset(slot, tile), low, high);
    } else if (holds_keys(row_tile)) {
      keys[at + key_offset(slot, dim)] = float_to_bf16(turned(low, turn->x, -high, turn->y));
      keys[at + key_offset(slot, dim + HEAD_DIM / 2)] = float_to_bf16(turned(high, turn->x, low, turn->y));
    } else {
      values[at + value_offset(slot, dim)] = float_to_bf16(low);
      values[at + value_offset(slot, dim + HEAD_DIM / 2)] = float_to_bf16(high);
    }
  }
};
