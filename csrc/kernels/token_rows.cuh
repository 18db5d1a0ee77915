// SPDX-License-Identifier: Apache-2.0
// The rows of one pass: FRAME_TOKENS of a frame or a prompt, and behind them ACTION_TOKENS of the action,
// known or drafted. Either may be 0; both are multiples of 8, or ACTION_TOKENS is 1: a decode step.
//
// As operands of a projection a frame's tokens are float16, 11 bits, eight to a column tile. An action's token
// is split in its bfloat16 and the rest of that rounding, 16 bits together, in the same column of two
// tiles, or, alone in a decode step, in two columns of one tile. A column's sums do not depend on the others:
// an action token gets the same bits in a decode step, behind a frame and among drafts.
#pragma once
#include "mma.cuh"

static_assert(TOKENS == FRAME_TOKENS + ACTION_TOKENS, "a pass has frame tokens, action tokens, or both");
static_assert(FRAME_TOKENS % TILE_TOKENS == 0, "frame tokens fill whole column tiles");
static_assert(ACTION_TOKENS % TILE_TOKENS == 0 || (ACTION_TOKENS == 1 && FRAME_TOKENS == 0),
              "action tokens fill whole column tiles, or one token is alone");

// Warps of a projection, which take an eighth of its k each.
constexpr int GEMM_WARPS = 8;
constexpr int GEMM_THREADS = GEMM_WARPS * WARP;

constexpr int FRAME_TILES = FRAME_TOKENS / TILE_TOKENS;
constexpr int ACTION_TILES = ACTION_TOKENS / TILE_TOKENS;  // each has a tile of rests behind it
constexpr int COLUMN_TILES = TOKENS == 1 ? 1 : FRAME_TILES + 2 * ACTION_TILES;
constexpr int COLUMN_TILE_BYTES = TILE_TOKENS * TILE_K * 2;

// In a frame silu(gate) * up is kept as a 64th of itself: trained models have outliers beyond float16's
// 65,504, and below 2^-14 * 64 the spacing of float16 is still finer than bfloat16's would be at ordinary
// values.
__device__ __forceinline__ float activated_scale(int token) { return token < FRAME_TOKENS ? 1.0f / 64 : 1.0f; }

// Column tiles that lie side by side: of two a lane takes its registers in one piece of 16 bytes.
constexpr int TILES_ABREAST = COLUMN_TILES % 2 == 0 ? 2 : 1;

// Offset, in elements, of (token, k) in a token operand:
// [k tile][column tile / TILES_ABREAST][lane][column tile % TILES_ABREAST][register 0, 1][pair].
// The rest of an action token's rounding, in the next column tile, is REST_OFFSET elements on.
constexpr int LANE_ELEMENTS = 4;
constexpr int REST_OFFSET = TILES_ABREAST == 2 ? LANE_ELEMENTS : TILE_TOKENS * TILE_K;

__device__ __forceinline__ int operand_offset(int token, int k) {
  const int action = token - FRAME_TOKENS;
  const int tile = action < 0 ? token / TILE_TOKENS : FRAME_TILES + 2 * (action / TILE_TOKENS);
  const int in_tile = column_offset(token % TILE_TOKENS, k % TILE_K), abreast = tile % TILES_ABREAST;
  return (k / TILE_K * COLUMN_TILES + tile - abreast) * TILE_TOKENS * TILE_K +
         (in_tile / LANE_ELEMENTS * TILES_ABREAST + abreast) * LANE_ELEMENTS + in_tile % LANE_ELEMENTS;
}

// Write k and k + 1 of a token, k even.
__device__ __forceinline__ void store_operand(uint32* operand, int token, int k, float low, float high) {
  uint32* at = operand + operand_offset(token, k) / 2;
  if (token < FRAME_TOKENS)
    at[0] = pack_half(low, high);
  else
    at[0] = split_bf16(low, high, at[REST_OFFSET / 2]);
}
