// SPDX-License-Identifier: Apache-2.0
// One warp's attention of 16 query rows over one page in shared memory, with a running softmax.
//
// A key carries the turn of its slot in the page; what is left, the rank of the page's slot 0, is turned away
// from the query or onto the key. An action's few rows are turned for each page as they are read, and rounded
// to bfloat16 once. A frame's many rows are turned once, by their ranks, and each page's keys by its base: for
// 48 rows a block that is a third of the work. Both are float16 then, whose 11 bits make the second rounding
// of a key small beside its first. Scores, softmax and sums are float32.
#pragma once
#include "kv_format.cuh"

constexpr int K_TILES = HEAD_DIM / TILE_K;
constexpr int QUERY_STRIDE = HEAD_DIM + 8;  // floats; the pad spreads 8 rows over the banks
constexpr float LOG2_E = 1.4426950408889634f;

struct RowState {
  Accumulator output[HEAD_DIM / 8];
  float top[2], sum[2];  // rows lane / 4 and lane / 4 + 8
};

// k tiles j and j + K_TILES / 2 of one query tile as the 16-row operand, turned: rotate-half pairs meet in
// one lane. `rotary`: the angles of rows lane / 4 and lane / 4 + 8.
template <bool HALF>
__device__ __forceinline__ void turn_queries(Vec4& lower, Vec4& upper, const float* tile,
                                             const float2* const (&rotary)[2], int j) {
  const int lane = threadIdx.x % WARP;
  uint32 low[4], high[4];
#pragma unroll
  for (int reg = 0; reg < 4; ++reg) {
    const int dim = j * TILE_K + (reg / 2) * 8 + (lane % 4) * 2;
    const float* row = tile + (lane / 4 + reg % 2 * 8) * QUERY_STRIDE + dim;
    const float2 a = *(const float2*)row, b = *(const float2*)(row + HEAD_DIM / 2);
    const float4 turn = *(const float4*)(rotary[reg % 2] + dim);  // cos, sin, cos, sin
    const float2 l{turned(a.x, turn.x, -b.x, turn.y), turned(a.y, turn.z, -b.y, turn.w)};
    const float2 h{turned(b.x, turn.x, a.x, turn.y), turned(b.y, turn.z, a.y, turn.w)};
    low[reg] = HALF ? pack_half(l.x, l.y) : pack_bf16(l.x, l.y);
    high[reg] = HALF ? pack_half(h.x, h.y) : pack_bf16(h.x, h.y);
  }
  lower = {low[0], low[1], low[2], low[3]};
  upper = {high[0], high[1], high[2], high[3]};
}

// Zero the values of slots from `fill` on: a probability of zero times NaN would be NaN.
__device__ __forceinline__ uint32 drop_unfilled(uint32 pair, int slot, int fill) {
  return slot + 1 < fill ? pair : slot < fill ? pair & 0xffffu : 0u;
}

struct Scores {
  Accumulator v[PAGE_SLOTS / 8];
};

// Of an action's rows, which are turned by `rotary` on the way.
__device__ __forceinline__ void score_page(Scores& scores, const float* query_tile,
                                           const float2* const (&rotary)[2], const Vec4* keys) {
  const int lane = threadIdx.x % WARP;
#pragma unroll(ALONE_ON_SM ? K_TILES / 2 : 1)
  for (int j = 0; j < K_TILES / 2; ++j) {
    Vec4 lower, upper;
    turn_queries<false>(lower, upper, query_tile, rotary, j);
#pragma unroll
    for (int n = 0; n < PAGE_SLOTS / 8; ++n) {
      const Vec4 b = load_keys(keys, (n * (K_TILES / 2) + j) * WARP + lane);
      mma(scores.v[n], lower, b.x, b.y);
      mma(scores.v[n], upper, b.z, b.w);
    }
  }
}

// Of a frame's rows, turned for all pages: `queries` [K_TILES / 2][lower, upper][lane] as the 16-row operand.
// `keys` are float16, from turn_keys.
__device__ __forceinline__ void score_turned_page(Scores& scores, const Vec4* queries, const Vec4* keys) {
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int j = 0; j < K_TILES / 2; ++j) {
    const Vec4 lower = queries[2 * j * WARP + lane], upper = queries[(2 * j + 1) * WARP + lane];
#pragma unroll
    for (int n = 0; n < PAGE_SLOTS / 8; ++n) {
      const Vec4 b = keys[(n * (K_TILES / 2) + j) * WARP + lane];
      mma_half(scores.v[n], lower, b.x, b.y);
      mma_half(scores.v[n], upper, b.z, b.w);
    }
  }
}

// Turn a page's keys by the angles of its base rank and make them float16; `turned_keys` are bfloat16 ones' own
// place, or for int8 another. `thread` of `threads` share the page.
__device__ __forceinline__ void turn_keys(Vec4* turned_keys, const Vec4* keys, const float2* base_turn,
                                          int thread, int threads) {
  auto turn = [&](uint32& lower, uint32& upper, float4 angles) {
    const float2 a = bf16_pair(lower), b = bf16_pair(upper);
    lower = pack_half(turned(a.x, angles.x, -b.x, angles.y), turned(a.y, angles.z, -b.y, angles.w));
    upper = pack_half(turned(b.x, angles.x, a.x, angles.y), turned(b.y, angles.z, a.y, angles.w));
  };
  for (int i = thread; i < PAGE_SLOTS * HEAD_DIM / 8; i += threads) {
    Vec4 vec = load_keys(keys, i);
    const int dim = i / WARP % (K_TILES / 2) * TILE_K + i % 4 * 2;  // key_offset's order
    turn(vec.x, vec.z, *(const float4*)(base_turn + dim));
    turn(vec.y, vec.w, *(const float4*)(base_turn + dim + 8));
    turned_keys[i] = vec;
  }
}

// Probabilities times values.
template <bool PARTLY_FILLED>
__device__ __forceinline__ void add_values(RowState& state, const Accumulator (&scores)[PAGE_SLOTS / 8],
                                           const Vec4* values, int fill) {
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int s = 0; s < PAGE_SLOTS / 16; ++s) {
    const Accumulator &even = scores[2 * s], &odd = scores[2 * s + 1];
    Vec4 rest;  // a probability rounded to bfloat16 would be the largest error of an attention
    const Vec4 probabilities = {
        split_bf16(even.v[0], even.v[1], rest.x), split_bf16(even.v[2], even.v[3], rest.y),
        split_bf16(odd.v[0], odd.v[1], rest.z), split_bf16(odd.v[2], odd.v[3], rest.w)};
    const int slot = s * 16 + (lane % 4) * 2;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 16; ++d) {
      Vec4 b = load_values(values, s, d);
      if (PARTLY_FILLED) {
        b.x = drop_unfilled(b.x, slot, fill);
        b.y = drop_unfilled(b.y, slot + 8, fill);
        b.z = drop_unfilled(b.z, slot, fill);
        b.w = drop_unfilled(b.w, slot + 8, fill);
      }
      mma(state.output[2 * d], probabilities, b.x, b.y);
      mma(state.output[2 * d + 1], probabilities, b.z, b.w);
      mma(state.output[2 * d], rest, b.x, b.y);
      mma(state.output[2 * d + 1], rest, b.z, b.w);
    }
  }
}

__device__ __forceinline__ void add_page(RowState& state, Accumulator (&scores)[PAGE_SLOTS / 8],
                                         const Vec4* values, int fill, const int (&limit)[2]) {
  const int lane = threadIdx.x % WARP;
  float top[2] = {state.top[0], state.top[1]};
#pragma unroll
  for (int n = 0; n < PAGE_SLOTS / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int slot = n * 8 + (lane % 4) * 2 + i % 2;
      float& score = scores[n].v[i];
      score = slot < limit[i / 2] ? __fmul_rn(score, SOFTMAX_SCALE * LOG2_E) : negative_infinity();
      top[i / 2] = fmaxf(top[i / 2], score);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    top[half] = fmaxf(top[half], __shfl_xor_sync(ALL_LANES, top[half], 1));
    top[half] = fmaxf(top[half], __shfl_xor_sync(ALL_LANES, top[half], 2));
    const float anchor = top[half] == negative_infinity() ? 0.0f : top[half];
    const float shrink = exp2_fast(state.top[half] - anchor);
    state.top[half] = top[half];
    state.sum[half] = __fmul_rn(state.sum[half], shrink);
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; ++d) {
      state.output[d].v[2 * half] = __fmul_rn(state.output[d].v[2 * half], shrink);
      state.output[d].v[2 * half + 1] = __fmul_rn(state.output[d].v[2 * half + 1], shrink);
    }
#pragma unroll
    for (int n = 0; n < PAGE_SLOTS / 8; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n].v[i] = exp2_fast(scores[n].v[i] - anchor);
        state.sum[half] += scores[n].v[i];  // this lane's slots; lanes are added at the end
      }
    }
  }
  // One question for the page: one before each product would keep them from overlapping.
  if (fill < PAGE_SLOTS)
    add_values<true>(state, scores, values, fill);
  else
    add_values<false>(state, scores, values, fill);
}
