// SPDX-License-Identifier: Apache-2.0
// attention: softmax(queries * keys^T / sqrt(HEAD_DIM)) * values over a list of pages, split along the pages.
// (The splits of several tokens are merged by combine_attention.cu, a decode step's inside the output
// projection.)
//
//   partial  f32   [KV head][split][row][HEAD_DIM], row = token * GROUP + query head in the group
//   maximum_and_sum f32 [KV head][split][row] pairs, the maximum in units of log2
//   queries  f32   [TOKENS][HEADS * HEAD_DIM], not rotated
//   keys, values      this layer's pages, as qkv.cu writes them (kv_page.cuh, kv_format.cuh)
//   rotary   f32   [rank][HEAD_DIM / 2] (cos, sin)
//
// Block = (split, KV head, ROW_WARPS tiles of 16 query rows, of the frame or of the action). Warp = (query
// tile, key warp): it takes whole pages, so all query heads of a group share each byte of K and V. Pages are
// dealt to the splits in groups of KEY_WARPS; each key warp has PAGE_BUFFERS of them in shared memory or on
// the way. The first ones are loaded before the predecessor is waited for, but for the pages that it writes.
//
// A block of an action behind a frame takes several splits, one after the other: with a block for each, some
// would wait until the frame's are done.
//
// Positions: a key carries its slot in the page, the query its rank less the page's base rank, or the frame's
// queries their rank and the loaded page its base (attend_page.cuh). Angles come from a table made in float64.
// Slots at or above a page's fill may hold anything, NaN too: their scores are replaced, their values zeroed.
#include "merge_key_warps.cuh"

// Of a page of a frame's int8 keys, turned (bfloat16 ones are turned in place): one page a key warp at a time.
constexpr int TURNED_VECS = FRAME_TOKENS > 0 && KV_BITS == 8 ? PAGE_NUMBERS / 8 : 0;
// Tokens whose rows one block may hold, and float2 a token of angles; the pad is for the banks again.
constexpr int MOST_TURNS = (ROW_WARPS * 16 - 1) / GROUP + 2;
constexpr int TURNS = MOST_TURNS < TOKENS ? MOST_TURNS : TOKENS;
constexpr int TURN_STRIDE = HEAD_DIM / 2 + 2;
constexpr int FRAME_GROUPS = (FRAME_ROWS + ROW_WARPS * 16 - 1) / (ROW_WARPS * 16);

extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS, TOKENS == 1 ? 2 : 1)
    attention(float* partial, float2* maximum_and_sum, const float* queries, const KeptNumber* keys,
              const KeptNumber* values, const float2* rotary, const ChunkState* state) {
  extern __shared__ __align__(128) char shared[];
  // [buffer][key warp][keys, values][PAGE_VECS], [key warp][TURNED_VECS], the block's queries, and angles: for
  // an action [buffer][key warp][TURNS], for a frame [buffer][key warp][1] and those of its queries, [TURNS].
  // After the last page the merge takes their place.
  Vec4* page_data = (Vec4*)shared;
  float* query_tiles = (float*)(shared + KEY_WARPS * (PAGE_BUFFERS * 2 * PAGE_VECS + TURNED_VECS) * 16);
  float2* angles = (float2*)(query_tiles + ROW_WARPS * 16 * QUERY_STRIDE);
  float2* query_angles = angles + PAGE_BUFFERS * KEY_WARPS * TURN_STRIDE;
  float2* stats = (float2*)shared;
  float* rows = (float*)(stats + KEY_WARPS * ROW_WARPS * 16);
  let_successor_start();
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int key_warp = warp / ROW_WARPS, row_warp = warp % ROW_WARPS;
  const int kv_head = blockIdx.y;
  int split = blockIdx.x;
  const bool frame = FRAME_TOKENS > 0 && blockIdx.z < FRAME_GROUPS;
  const int splits = frame ? FRAME_SPLITS : ACTION_SPLITS;
  if (split >= splits) return;
  const int first_row =
      frame ? blockIdx.z * ROW_WARPS * 16 : FRAME_ROWS + (blockIdx.z - FRAME_GROUPS) * ROW_WARPS * 16;
  const int end_row = frame ? FRAME_ROWS : QUERY_ROWS, first_token = first_row / GROUP;
  const int pages = pages_seen(state, frame), first_written = state->pages - WRITTEN_PAGES;
  const TokenPlace first = place_of(state, first_token);
  const int first_rank = state->base[first.entry] + first.slot;
  auto keys_of = [&](int buffer) { return page_data + (buffer * KEY_WARPS + key_warp) * 2 * PAGE_VECS; };
  auto turned_keys_of = [&](int buffer) {
    return TURNED_VECS > 0 ? page_data + KEY_WARPS * PAGE_BUFFERS * 2 * PAGE_VECS + key_warp * TURNED_VECS
                           : keys_of(buffer);
  };
  const int turns = frame ? 1 : TURNS;  // angles of a page
  auto angles_of = [&](int buffer) { return angles + (buffer * KEY_WARPS + key_warp) * turns * TURN_STRIDE; };

  // The row warps of one key warp share the copies.
  auto load_page = [&](int page, int buffer) {
    Vec4* my_keys = keys_of(buffer);
    const uint64 at = ((uint64)page * KV_HEADS + kv_head) * PAGE_VECS;
    for (int i = row_warp * WARP + lane; i < PAGE_VECS; i += ROW_WARPS * WARP) {
      copy16_async(my_keys + i, (const Vec4*)keys + at + i);
      copy16_async(my_keys + PAGE_VECS + i, (const Vec4*)values + at + i);
    }
  };
  // Of the page's base, or of the queries' ranks less the page's base; two angles to a copy.
  auto load_angles = [&](int base, int buffer) {
    float2* my_angles = angles_of(buffer);
    const float2* from = rotary + (frame ? base : first_rank - base) * (HEAD_DIM / 2);
    for (int i = row_warp * WARP + lane; i < turns * HEAD_DIM / 4; i += ROW_WARPS * WARP)
      copy16_async(my_angles + i / (HEAD_DIM / 4) * TURN_STRIDE + i % (HEAD_DIM / 4) * 2, from + i * 2);
  };
  const int stride = splits * KEY_WARPS;  // entries from one page of a key warp to its next
  // The pages that were there before this pass. In a prefill no block of attention finds room beside the kernel
  // before it, so what follows is waited for: the list is read at once, not after asking how long it is.
  int page[PAGE_BUFFERS];
  auto load_kept_pages = [&] {
    int base[PAGE_BUFFERS];
#pragma unroll
    for (int buffer = 0; buffer < PAGE_BUFFERS; ++buffer) {
      const int entry = min(split * KEY_WARPS + key_warp + buffer * stride, MAX_PAGES - 1);
      page[buffer] = state->page[entry];
      base[buffer] = state->base[entry];
    }
#pragma unroll
    for (int buffer = 0; buffer < PAGE_BUFFERS; ++buffer) {
      const int entry = split * KEY_WARPS + key_warp + buffer * stride;
      if (entry < min(pages, first_written)) load_page(page[buffer], buffer);
      if (entry < pages) load_angles(base[buffer], buffer);
      copy_async_commit();
    }
  };
  if (frame)  // in the first group of copies
    for (int i = threadIdx.x; i < TURNS * HEAD_DIM / 4; i += ATTENTION_THREADS)
      if (first_token + i / (HEAD_DIM / 4) < FRAME_TOKENS)
        copy16_async(query_angles + i / (HEAD_DIM / 4) * TURN_STRIDE + i % (HEAD_DIM / 4) * 2,
                     rotary + first_rank * (HEAD_DIM / 2) + i * 2);
  load_kept_pages();
  wait_for_predecessor();

  for (;;) {
    if (split * KEY_WARPS >= pages) return;
    const int first_entry = split * KEY_WARPS + key_warp;
    bool wrote = false;
#pragma unroll
    for (int buffer = 0; buffer < PAGE_BUFFERS; ++buffer) {
      const int entry = first_entry + buffer * stride;
      if (entry < pages && entry >= first_written) {
        load_page(page[buffer], buffer);
        wrote = true;
      }
    }
    copy_async_commit();
    for (int i = threadIdx.x; i < ROW_WARPS * 16 * HEAD_DIM / 4; i += ATTENTION_THREADS) {
      const int row = i / (HEAD_DIM / 4), dim = i % (HEAD_DIM / 4) * 4;
      const int query_row = first_row + row;
      float4 query{0.0f, 0.0f, 0.0f, 0.0f};
      if (query_row < end_row) {
        const int token = query_row / GROUP, head = kv_head * GROUP + query_row % GROUP;
        query = *(const float4*)(queries + (token * HEADS + head) * HEAD_DIM + dim);
      }
      *(float4*)(query_tiles + row * QUERY_STRIDE + dim) = query;
    }
    // The loop below counts one group a buffer; this page's came after them.
    if (PAGE_BUFFERS > 1 && wrote) copy_async_wait<0>();
    RowState mine = {};
    mine.top[0] = mine.top[1] = negative_infinity();
    int token[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      token[half] = min(first_row + row_warp * 16 + lane / 4 + 8 * half, end_row - 1) / GROUP;
    const float* query_tile = query_tiles + row_warp * 16 * QUERY_STRIDE;
    Vec4* turned_queries = (Vec4*)query_tiles + row_warp * K_TILES * WARP;
    if (frame) {  // the key warps of a query tile share the turning; the result takes the tiles' place
      constexpr int SHARE = (K_TILES / 2 + KEY_WARPS - 1) / KEY_WARPS;
      Vec4 lower[SHARE], upper[SHARE];
      const float2* turn[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        turn[half] = query_angles + (token[half] - first_token) * TURN_STRIDE;
      copy_async_wait<PAGE_BUFFERS>();  // the angles
      __syncthreads();
#pragma unroll
      for (int i = 0; i < SHARE; ++i)
        if (key_warp + i * KEY_WARPS < K_TILES / 2)
          turn_queries<true>(lower[i], upper[i], query_tile, turn, key_warp + i * KEY_WARPS);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < SHARE; ++i) {
        const int j = key_warp + i * KEY_WARPS;
        if (j >= K_TILES / 2) continue;
        turned_queries[2 * j * WARP + lane] = lower[i];
        turned_queries[(2 * j + 1) * WARP + lane] = upper[i];
      }
    }
    auto attend = [&](int entry, int buffer) {
      const int fill = state->fill[entry];
      const float2* turn[2];
      int limit[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        turn[half] = angles_of(buffer) + (token[half] - first_token) * TURN_STRIDE;
        limit[half] = entry == first.entry ? min(fill, first.slot + token[half] - first_token + 1) : fill;
      }
      Scores scores = {};
      if (frame)
        score_turned_page(scores, turned_queries, turned_keys_of(buffer));
      else
        score_page(scores, query_tile, turn, keys_of(buffer));
      add_page(mine, scores.v, keys_of(buffer) + PAGE_VECS, fill, limit);
    };
    int buffer = 0;
    for (int entry = first_entry; entry - key_warp < pages; entry += stride) {
      copy_async_wait<PAGE_BUFFERS - 1>();
      __syncthreads();
      if (frame) {
        if (entry < pages)
          turn_keys(turned_keys_of(buffer), keys_of(buffer), angles_of(buffer), row_warp * WARP + lane,
                    ROW_WARPS * WARP);
        __syncthreads();
      }
      if (entry < pages) attend(entry, buffer);
      const int next = entry + PAGE_BUFFERS * stride;
      if (next - key_warp < pages) {
        __syncthreads();  // all row warps are done with the page before it is replaced
        if (next < pages) {
          load_angles(state->base[next], buffer);
          load_page(state->page[next], buffer);
        }
      }
      copy_async_commit();
      buffer = (buffer + 1) % PAGE_BUFFERS;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      mine.sum[half] += __shfl_xor_sync(ALL_LANES, mine.sum[half], 1);
      mine.sum[half] += __shfl_xor_sync(ALL_LANES, mine.sum[half], 2);
    }
    merge_key_warps(mine, rows, stats, row_warp, key_warp, first_row, end_row, partial, maximum_and_sum,
                    partial_row(kv_head, split, 0));
    if (frame || WRITTEN_PAGES < 2) return;
    split += gridDim.x;
    if (split >= splits) return;
    __syncthreads();  // the merge is done with what the pages now take the place of
    load_kept_pages();
  }
}
