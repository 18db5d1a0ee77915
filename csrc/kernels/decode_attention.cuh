// SPDX-License-Identifier: Apache-2.0
// A block's share of one token's attention: one page a key warp, most of them fetched a phase ahead.
#pragma once
#include "decode_block.cuh"
#include "phase_clock.cuh"

// The page of this key warp; without a commit: it lands with the weights that are asked for next.
__device__ __forceinline__ void copy_page(Vec4* my_page, const DecodeLayers& args, int layer, int page,
                                          int kv_head) {
  const uint64 at = ((uint64)page * KV_HEADS + kv_head) * PAGE_VECS;
  const uint8* layer_pages = args.pages + layer * args.stride.pages;
  const Vec4* keys = (const Vec4*)layer_pages + at;
  const Vec4* values = (const Vec4*)(layer_pages + args.stride.pages / 2) + at;
  for (int i = threadIdx.x % WARP; i < PAGE_VECS; i += WARP) {
    copy16_async(my_page + i, keys + i);
    copy16_async(my_page + PAGE_VECS + i, values + i);
  }
}

// Pages do not wait for their layer's QKV, but for the one that it writes.
__device__ __forceinline__ void fetch_page(const Shared& shared, Vec4* pages, const DecodeLayers& args,
                                           int layer, const AttentionShare& share) {
  const int key_warp = threadIdx.x / WARP, entry = share.split * KEY_WARPS + key_warp;
  if (share.mine && key_warp < KEY_WARPS && layer < LAYERS && entry < shared.state.pages - 1)
    copy_page(pages + key_warp * 2 * PAGE_VECS, args, layer, shared.state.page[entry], share.kv_head);
}

// Queries against the one page of each key warp; as attention.cu for one token. All warps load and merge.
__device__ __forceinline__ void attend(Shared& shared, Vec4* pages, const DecodeLayers& args, int layer,
                                       const AttentionShare& share, const PhaseClock& clock) {
  const int key_warp = threadIdx.x / WARP;
  const ChunkState& state = shared.state;
  const int written = state.pages - 1;
  const int entry = key_warp < KEY_WARPS ? share.split * KEY_WARPS + key_warp : state.pages;
  Vec4* my_keys = pages + key_warp * 2 * PAGE_VECS;
  if (entry == written) copy_page(my_keys, args, layer, state.page[entry], share.kv_head);
  copy_async_commit();
  for (int i = threadIdx.x; i < GROUP * HEAD_DIM / 4; i += GEMM_THREADS) {
    const int row = i / (HEAD_DIM / 4), dim = i % (HEAD_DIM / 4) * 4;
    *(float4*)(shared.queries + row * QUERY_STRIDE + dim) =
        *(const float4*)(args.queries + (share.kv_head * GROUP + row) * HEAD_DIM + dim);
  }
  copy_async_wait<0>();  // the weights on their way have had the time at the barrier
  __syncthreads();
  clock.mark(QUERIES_LOADED);
  RowState mine = {};
  mine.top[0] = mine.top[1] = negative_infinity();
  if (entry <= written) {
    const int fill = state.fill[entry];
    const int seen = entry == written ? min(fill, state.action.first + 1) : fill;
    const int limit[2] = {seen, seen};
    const float2* turn[2] = {shared.angles[key_warp], shared.angles[key_warp]};
    Scores scores = {};
    score_page(scores, shared.queries, turn, my_keys);
    clock.mark(SCORED);
    add_page(mine, scores.v, my_keys + PAGE_VECS, fill, limit);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    mine.sum[half] += __shfl_xor_sync(ALL_LANES, mine.sum[half], 1);
    mine.sum[half] += __shfl_xor_sync(ALL_LANES, mine.sum[half], 2);
  }
  clock.mark(VALUES_ADDED);
  merge_key_warps(mine, shared.rows, shared.stats, 0, key_warp, 0, QUERY_ROWS, args.attended, args.softmax,
                  partial_row(share.kv_head, share.split, 0));
  clock.mark(KEY_WARPS_MERGED);
  __syncthreads();
}
