// SPDX-License-Identifier: Apache-2.0
// What decode_layers.cu is given, the tiling of its projections, and a block's shared memory.
#pragma once
#include "grid_barrier.cuh"
#include "layer_stream.cuh"
#include "merge_key_warps.cuh"
#include "merge_splits.cuh"
#include "qkv_rows.cuh"

constexpr int ATTENTION_UNITS = ACTION_SPLITS * KV_HEADS;
constexpr int ANGLES = HEAD_DIM / 2;
static_assert(ATTENTION_UNITS <= BLOCKS, "a block has one share of the attention at most");

struct LayerStride {
  uint64 qkv, output, gate_up, down, pages;  // bytes
};

struct DecodeLayers {
  const uint8 *qkv, *output, *gate_up, *down;
  const float *norms, *bias;
  uint8* pages;  // keys of a layer, then its values
  const float2* rotary;
  const ChunkState* state;
  const float* input;
  float *residual_out, *queries, *attended;
  float2* softmax;
  float* output_partials;
  uint16* activated;
  float* down_partials;
  GridBarriers* barriers;
  int* cancelled;            // page-locked host memory, as `stop`
  const volatile int* stop;  // nonzero: no later step is wanted
  uint64* times;  // of PhaseClock; or null
  LayerStride stride;
};

using Qkv = ProjectionTiling<QKV_ROW_TILES, HIDDEN / TILE_K, 1, QKV_STAGE_TILES>;
using Output = ProjectionTiling<HIDDEN / TILE_ROWS, ATTENDED / TILE_K, OUTPUT_SPLIT_K, OUTPUT_STAGE_TILES>;
using GateUp = ProjectionTiling<2 * INTERMEDIATE / TILE_ROWS, HIDDEN / TILE_K, 1, GATE_UP_STAGE_TILES>;
using Down = ProjectionTiling<HIDDEN / TILE_ROWS, INTERMEDIATE / TILE_K, DOWN_SPLIT_K, DOWN_STAGE_TILES>;

constexpr int VECTOR_WORDS = HIDDEN > ATTENDED ? HIDDEN : ATTENDED;  // pairs and their rests
constexpr int MOST_MOST_UNITS =
    GateUp::MOST_UNITS > Down::MOST_UNITS ? GateUp::MOST_UNITS : Down::MOST_UNITS;
constexpr int BATCH_UNITS = at_most(16, MOST_MOST_UNITS);

struct Shared {
  alignas(128) uint32 vector[VECTOR_WORDS];
  float sums[BATCH_UNITS][GEMM_WARPS][TILE_ROWS];
  float queries[16 * QUERY_STRIDE];
  alignas(16) float2 angles[KEY_WARPS][ANGLES];
  float2 stats[KEY_WARPS * 16];
  float rows[KEY_WARPS * ROWS_KEPT * QUERY_STRIDE];
  float scratch[GEMM_WARPS];
  float bias[Qkv::MOST_UNITS * TILE_ROWS];
  float2 slot_turn[ANGLES];
  ChunkState state;
  Share shares[GEMM_WARPS][PHASES];
  volatile int stop;
  volatile uint32 attended;  // arrivals behind the attention, of the last layer whose are all there
};
constexpr int SHARED_BEFORE_RINGS = divided_up(sizeof(Shared), 128) * 128;
static_assert(SHARED_BEFORE_RINGS <= FIXED_SHARED_BYTES, "more shared memory than was planned");
constexpr int ALL_PAGES_BYTES = KEY_WARPS * 2 * PAGE_BYTES;

// This block's share of the attention: the last blocks have one, since the first have a row tile more of
// gate/up.
struct AttentionShare {
  bool mine;
  int split, kv_head;

  __device__ __forceinline__ explicit AttentionShare(int splits) {
    const int unit = (int)blockIdx.x - (BLOCKS - ATTENTION_UNITS);
    split = unit % ACTION_SPLITS;
    kv_head = unit / ACTION_SPLITS;
    mine = unit >= 0 && split < splits;
  }
};
