// SPDX-License-Identifier: Apache-2.0
// attention: softmax(queries * keys^T / sqrt(HEAD_DIM)) * values over a list of pages, split along the pages.
// combine_attention: merge the splits of a prefill. (A decode step merges inside the output projection.)
//
//   partial  f32   [KV head][split][row][HEAD_DIM], row = token * GROUP + query head in the group
//   maximum_and_sum f32 [KV head][split][row] pairs, the maximum in units of log2
//   queries  f32   [TOKENS][HEADS * HEAD_DIM], not rotated
//   keys, values bf16 this layer's pages, as qkv.cu writes them
//   rotary   f32   [rank][HEAD_DIM / 2] (cos, sin)
//
// Block = (split, KV head, ROW_WARPS tiles of 16 query rows). Warp = (query tile, key warp): it takes whole
// pages, so all query heads of a group share each byte of K and V. Pages are dealt to the splits in groups of
// KEY_WARPS. All pages but the one being written are loaded before the predecessor is waited for.
//
// Positions: the query is turned by its rank less the page's base rank; the key carries the rest. Angles come
// from a table made in float64; queries are rounded to bfloat16 once, after the turn.
// Slots at or above a page's fill may hold anything, NaN too: their scores are replaced, their values zeroed.
#include "attention_merge.cuh"
#include "chunk_state.cuh"

constexpr int QUERY_TILES = (QUERY_ROWS + 15) / 16;
constexpr int ATTENTION_THREADS = ROW_WARPS * KEY_WARPS * WARP;
constexpr int K_TILES = HEAD_DIM / TILE_K;
constexpr int PAGE_VECS = PAGE_SLOTS * HEAD_DIM / 8;  // 16-byte pieces of one page of keys, or of values
constexpr int QUERY_STRIDE = HEAD_DIM + 8;            // floats; the pad spreads 8 rows over the banks
constexpr int MERGE_FLOATS = HEAD_DIM / 2 + 4;        // a lane's state: output, maxima, sums
constexpr float LOG2_E = 1.4426950408889634f;

struct RowState {
  Accumulator output[HEAD_DIM / 8];
  float top[2], sum[2];  // rows lane / 4 and lane / 4 + 8
};

// k tiles j and j + K_TILES / 2 of one query tile as the 16-row operand, turned: rotate-half pairs meet in one
// lane. `rotary` points at the angles of rows lane / 4 and lane / 4 + 8.
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
    low[reg] = pack_bf16(a.x * turn.x - b.x * turn.y, a.y * turn.z - b.y * turn.w);
    high[reg] = pack_bf16(b.x * turn.x + a.x * turn.y, b.y * turn.z + a.y * turn.w);
  }
  lower = {low[0], low[1], low[2], low[3]};
  upper = {high[0], high[1], high[2], high[3]};
}

// Zero the values of slots from `fill` on: a probability of zero times NaN would be NaN.
__device__ __forceinline__ uint32 drop_unfilled(uint32 pair, int slot, int fill) {
  return slot + 1 < fill ? pair : slot < fill ? pair & 0xffffu : 0u;
}

__device__ __forceinline__ void attend_page(RowState& state, const float* query_tile,
                                            const float2* const (&rotary)[2], const Vec4* keys,
                                            const Vec4* values, int fill, const int (&limit)[2]) {
  const int lane = threadIdx.x % WARP;
  Accumulator scores[PAGE_SLOTS / 8] = {};
#pragma unroll 1
  for (int j = 0; j < K_TILES / 2; ++j) {
    Vec4 lower, upper;
    turn_queries(lower, upper, query_tile, rotary, j);
#pragma unroll
    for (int n = 0; n < PAGE_SLOTS / 8; ++n) {
      const Vec4 b = keys[(n * (K_TILES / 2) + j) * WARP + lane];
      mma(scores[n], lower, b.x, b.y);
      mma(scores[n], upper, b.z, b.w);
    }
  }
  float top[2] = {state.top[0], state.top[1]};
#pragma unroll
  for (int n = 0; n < PAGE_SLOTS / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int slot = n * 8 + (lane % 4) * 2 + i % 2;
      float& score = scores[n].v[i];
      score = slot < limit[i / 2] ? score * SOFTMAX_SCALE * LOG2_E : negative_infinity();
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
    state.sum[half] *= shrink;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; ++d) {
      state.output[d].v[2 * half] *= shrink;
      state.output[d].v[2 * half + 1] *= shrink;
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
#pragma unroll
  for (int s = 0; s < PAGE_SLOTS / 16; ++s) {
    const Accumulator &even = scores[2 * s], &odd = scores[2 * s + 1];
    const Vec4 probabilities = {pack_bf16(even.v[0], even.v[1]), pack_bf16(even.v[2], even.v[3]),
                                pack_bf16(odd.v[0], odd.v[1]), pack_bf16(odd.v[2], odd.v[3])};
    const int slot = s * 16 + (lane % 4) * 2;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 16; ++d) {
      Vec4 b = values[(s * (HEAD_DIM / 16) + d) * WARP + lane];
      if (fill < PAGE_SLOTS) {
        b.x = drop_unfilled(b.x, slot, fill);
        b.y = drop_unfilled(b.y, slot + 8, fill);
        b.z = drop_unfilled(b.z, slot, fill);
        b.w = drop_unfilled(b.w, slot + 8, fill);
      }
      mma(state.output[2 * d], probabilities, b.x, b.y);
      mma(state.output[2 * d + 1], probabilities, b.z, b.w);
    }
  }
}

// Fold the upper half of the key warps into the lower half until one is left: a fixed tree.
__device__ __forceinline__ void merge_key_warps(RowState& state, float* scratch, int row_warp, int key_warp) {
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int half = KEY_WARPS / 2; half > 0; half /= 2) {
    __syncthreads();
    float* at = scratch + ((row_warp * (KEY_WARPS / 2) + key_warp % half) * MERGE_FLOATS) * WARP + lane;
    if (key_warp >= half && key_warp < 2 * half) {
#pragma unroll
      for (int i = 0; i < HEAD_DIM / 2; ++i) at[i * WARP] = state.output[i / 4].v[i % 4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        at[(HEAD_DIM / 2 + i) * WARP] = state.top[i];
        at[(HEAD_DIM / 2 + 2 + i) * WARP] = state.sum[i];
      }
    }
    __syncthreads();
    if (key_warp >= half) continue;
    float mine[2], other[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float other_top = at[(HEAD_DIM / 2 + i) * WARP];
      const float top = fmaxf(state.top[i], other_top);
      const float anchor = top == negative_infinity() ? 0.0f : top;
      mine[i] = exp2_fast(state.top[i] - anchor);
      other[i] = exp2_fast(other_top - anchor);
      state.top[i] = top;
      state.sum[i] = state.sum[i] * mine[i] + at[(HEAD_DIM / 2 + 2 + i) * WARP] * other[i];
    }
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i) {
      const int half_row = i % 4 / 2;
      float& output = state.output[i / 4].v[i % 4];
      output = output * mine[half_row] + at[i * WARP] * other[half_row];
    }
  }
}

extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS, TOKENS == 1 ? 2 : 1)
    attention(float* partial, float2* maximum_and_sum, const float* queries, const uint16* keys,
              const uint16* values, const float2* rotary, const ChunkState* state) {
  extern __shared__ __align__(128) char shared[];
  Vec4* page_data = (Vec4*)shared;  // [key warp][keys, values][PAGE_VECS]
  float* query_tiles = (float*)(shared + KEY_WARPS * 2 * PAGE_VECS * 16);
  let_successor_start();
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int key_warp = warp / ROW_WARPS, row_warp = warp % ROW_WARPS;
  const int split = blockIdx.x, kv_head = blockIdx.y;
  const int first_tile = blockIdx.z * ROW_WARPS;
  const int pages = state->pages, written = pages - 1;
  Vec4* my_keys = page_data + key_warp * 2 * PAGE_VECS;

  auto load_page = [&](int entry) {  // the warps of one key warp share the work
    const uint64 at = ((uint64)state->page[entry] * KV_HEADS + kv_head) * PAGE_VECS;
    for (int i = row_warp * WARP + lane; i < PAGE_VECS; i += ROW_WARPS * WARP) {
      copy16_async(my_keys + i, (const Vec4*)keys + at + i);
      copy16_async(my_keys + PAGE_VECS + i, (const Vec4*)values + at + i);
    }
  };
  int entry = split * KEY_WARPS + key_warp;
  if (entry < written) load_page(entry);
  copy_async_commit();
  wait_for_predecessor();
  if (split * KEY_WARPS >= pages) return;

  for (int i = threadIdx.x; i < ROW_WARPS * 16 * HEAD_DIM / 4; i += ATTENTION_THREADS) {
    const int row = i / (HEAD_DIM / 4), dim = i % (HEAD_DIM / 4) * 4;
    const int query_row = first_tile * 16 + row;
    float4 query{0.0f, 0.0f, 0.0f, 0.0f};
    if (query_row < QUERY_ROWS) {
      const int token = query_row / GROUP, head = kv_head * GROUP + query_row % GROUP;
      query = *(const float4*)(queries + (token * HEADS + head) * HEAD_DIM + dim);
    }
    *(float4*)(query_tiles + row * QUERY_STRIDE + dim) = query;
  }
  RowState mine = {};
  mine.top[0] = mine.top[1] = negative_infinity();
  int token[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    token[half] = min((first_tile + row_warp) * 16 + lane / 4 + 8 * half, QUERY_ROWS - 1) / GROUP;
  const int first_slot = state->first_slot, first_rank = state->base[written] + first_slot;

  for (int group = split; group * KEY_WARPS < pages; group += SPLITS) {
    entry = group * KEY_WARPS + key_warp;
    if (group != split) __syncthreads();  // all warps are done with the pages before
    if (entry == written || (group != split && entry < written)) load_page(entry);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    if (entry >= pages) continue;
    const int fill = state->fill[entry];
    const float2* turn[2];
    int limit[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      turn[half] = rotary + (first_rank + token[half] - state->base[entry]) * (HEAD_DIM / 2);
      limit[half] = entry == written ? min(fill, first_slot + token[half] + 1) : fill;
    }
    attend_page(mine, query_tiles + row_warp * 16 * QUERY_STRIDE, turn, my_keys, my_keys + PAGE_VECS, fill, limit);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    mine.sum[half] += __shfl_xor_sync(ALL_LANES, mine.sum[half], 1);
    mine.sum[half] += __shfl_xor_sync(ALL_LANES, mine.sum[half], 2);
  }
  merge_key_warps(mine, (float*)shared, row_warp, key_warp);
  if (key_warp != 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = (first_tile + row_warp) * 16 + lane / 4 + 8 * half;
    if (row >= QUERY_ROWS) continue;
    const uint64 at = partial_row(kv_head, split, row);
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; ++d)
      *(float2*)(partial + at * HEAD_DIM + d * 8 + (lane % 4) * 2) =
          float2{mine.output[d].v[2 * half], mine.output[d].v[2 * half + 1]};
    if (lane % 4 == 0) maximum_and_sum[at] = float2{mine.top[half], mine.sum[half]};
  }
}

#if TOKENS > 1
//   operand  bf16  token operand of HEADS * HEAD_DIM k
// Warp = one query row of one KV head; a lane takes 2 dims at a time.
constexpr int COMBINE_WARPS = 4;

extern "C" __global__ void __launch_bounds__(COMBINE_WARPS* WARP)
    combine_attention(uint32* operand, const float* partial, const float2* maximum_and_sum,
                      const ChunkState* state) {
  let_successor_start();
  const int lane = threadIdx.x % WARP;
  const int index = blockIdx.x * COMBINE_WARPS + threadIdx.x / WARP;
  const int row = index % QUERY_ROWS, kv_head = index / QUERY_ROWS;
  wait_for_predecessor();
  if (kv_head >= KV_HEADS) return;
  const int splits = splits_in_use(state->pages);
  const float factor = split_factor(maximum_and_sum, kv_head, row, splits);
  const int token = row / GROUP, head = kv_head * GROUP + row % GROUP;
#pragma unroll
  for (int dim = lane * 2; dim < HEAD_DIM; dim += WARP * 2) {
    float2 sum{0.0f, 0.0f};
    for (int split = 0; split < splits; ++split) {
      const float weight = __shfl_sync(ALL_LANES, factor, split);
      const float2 more = *(const float2*)(partial + partial_row(kv_head, split, row) * HEAD_DIM + dim);
      sum.x += weight * more.x;
      sum.y += weight * more.y;
    }
    operand[token_operand_offset(token, head * HEAD_DIM + dim, TOKENS / TILE_TOKENS) / 2] = pack_bf16(sum.x, sum.y);
  }
}
#endif
