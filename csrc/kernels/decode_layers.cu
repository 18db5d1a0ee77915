// SPDX-License-Identifier: Apache-2.0
// decode_layers: all layers of one decode step in one persistent kernel, a block a multiprocessor (sm_90).
//
// The same sums in the same order as the kernels of the other driver, qkv.cu to down_projection.cu, so their
// bits are equal. What differs is that weights do not stop at the end of a phase: each of eight warps streams its
// share of all layers, in the order of use (LayerStream), and what it has asked for arrives while its block waits
// for others at a gate (grid_gates.cuh). Of a layer's gates only those around the MLP and before QKV are for all
// blocks; attention and what feeds it concern those that have a share of it.
//
// A release takes as long as the requests before it, so a phase asks for no more weights in its last
// HELD_STAGES, and goes on asking once it has arrived at its gate.
//
//   input          f32   [HIDDEN], the residual stream before the first layer
//   residual_out   f32   [HIDDEN], the stream before the last layer's down projection, whose parts are to be added
//   weights, norms, bias, KV pages: of layer 0, those of the next layer follow at the strides
//   scratch of one step: queries, attended, softmax, output_partials, activated, down_partials, as the other
//   driver has them
//
// A block's residual stream stays in registers: each adds all parts for itself, in order.
#include "activated.cuh"
#include "grid_gates.cuh"
#include "merge_key_warps.cuh"
#include "merge_splits.cuh"
#include "phase_clock.cuh"
#include "qkv_rows.cuh"
#include "residual.cuh"
#include "weight_stream.cuh"

static_assert(ALONE_ON_SM, "a persistent kernel is compiled with PERSISTENT");
static_assert(TOKENS == 1 && FRAME_TOKENS == 0, "a decode step");
static_assert(ROW_WARPS == 1 && KEY_WARPS <= GEMM_WARPS, "one tile of query rows a KV head");
static_assert(MAX_PAGES <= ACTION_SPLITS * KEY_WARPS, "a key warp has one page");

constexpr int ATTENTION_UNITS = ACTION_SPLITS * KV_HEADS;
constexpr int PAGE_VECS = PAGE_SLOTS * HEAD_DIM / 8;  // 16-byte pieces of one page of keys, or of values
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
  GridGates* gates;
  int* gate_given_up;       // page-locked host memory, as `stop`
  const volatile int* stop;  // nonzero: no later step is wanted
  uint64* times;  // of PhaseClock; or null
  LayerStride stride;
};

__host__ __device__ constexpr int at_most(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

// How one projection is dealt out: what projection.py plans and skinny_gemm.cuh does.
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

using Qkv = Cut<QKV_ROW_TILES, HIDDEN / TILE_K, 1, QKV_STAGE_TILES>;
using Output = Cut<HIDDEN / TILE_ROWS, ATTENDED / TILE_K, OUTPUT_PARTS, OUTPUT_STAGE_TILES>;
using GateUp = Cut<2 * INTERMEDIATE / TILE_ROWS, HIDDEN / TILE_K, 1, GATE_UP_STAGE_TILES>;
using Down = Cut<HIDDEN / TILE_ROWS, INTERMEDIATE / TILE_K, DOWN_PARTS, DOWN_STAGE_TILES>;

// ---- The weights of all layers, as one warp takes them ----

constexpr int PHASES = 4;

// A warp's share of one projection; the same in all layers.
struct Share {
  const uint8 *tiles, *scales;  // of lane 0 in layer 0
  uint64 layer_stride;          // bytes
  int units, first, count;      // row tiles; the first tile in each, and how many
  int unit_stride, scale_stride;  // bytes
};

template <class C>
__device__ __forceinline__ void describe(Share& share, const uint8* weights, uint64 layer_stride, int warp) {
  const int begin = C::begin(warp);
  share.first = C::first_tile() + begin;
  share.count = C::begin(warp + 1) - begin;
  share.units = share.count > 0 ? C::units() : 0;
  share.tiles = weights + ((uint64)C::column() * C::K_TILES + share.first) * TILE_BYTES;
  share.unit_stride = C::ACROSS * C::K_TILES * TILE_BYTES;
  constexpr int SCALES = WeightRing::scale_bytes(C::K_TILES);
  share.scales = weights + (uint64)C::ROW_TILES * C::K_TILES * TILE_BYTES + C::column() * SCALES;
  share.scale_stride = C::ACROSS * SCALES;
  share.layer_stride = layer_stride;
}

class LayerStream {
 public:
  // `shares`: this warp's, by phase.
  __device__ __forceinline__ LayerStream(Vec4* ring, const Share* shares) : ring_(ring), share_(shares - 1) {
    enter_next();
  }

  __device__ __forceinline__ void fill() {
#pragma unroll 1
    for (int stage = 0; stage < STAGES; ++stage) issue(stage);
  }

  // The oldest stage, once it has landed.
  __device__ __forceinline__ const Vec4* wait() {
    if (HELD_STAGES == 0 || held_ == 0)
      copy_async_wait<STAGES - 1>();
    else
      wait_held<1>();
    return ring_.tiles(oldest_);
  }
  __device__ __forceinline__ RowScales row_scales() const { return ring_.row_scales(oldest_); }
  __device__ __forceinline__ RowScales group_scales(int first, int i) const {
    return ring_.group_scales(oldest_, first, i);
  }

  // Give it back, once it is in registers, and ask for the next tiles: at once, or in resume().
  __device__ __forceinline__ void advance(bool hold) {
    if (hold)
      ++held_;
    else
      issue(oldest_);
    oldest_ = oldest_ + 1 == STAGES ? 0 : oldest_ + 1;
  }

  __device__ __forceinline__ void resume() {
#pragma unroll 1
    for (; held_ > 0; --held_) issue(oldest_ >= held_ ? oldest_ - held_ : oldest_ - held_ + STAGES);
  }

 private:
  // With `held_` stages not asked for, fewer groups may be on their way.
  template <int HELD>
  __device__ __forceinline__ void wait_held() {
    if constexpr (HELD >= STAGES) {
      copy_async_wait<0>();
    } else {
      if (held_ == HELD)
        copy_async_wait<STAGES - 1 - HELD>();
      else
        wait_held<HELD + 1>();
    }
  }

  __device__ __forceinline__ void issue(int stage) {
    if (left_ > 0) {
      ring_.copy(stage, source_, left_, scales_, first_);
      source_ += STAGE_TILES * WARP;
      first_ += STAGE_TILES;
      left_ -= STAGE_TILES;
      if (left_ <= 0) enter_unit();
    }
    copy_async_commit();  // also at the end: stages are counted in groups
  }

  __device__ __forceinline__ void enter_unit() {
    if (--units_left_ == 0) {
      enter_next();
      return;
    }
    source_ += unit_jump_;
    scales_ += scale_jump_;
    first_ = share_->first;
    left_ = share_->count;
  }

  // The next phase of which this warp has a share; at the end left_ stays 0.
  __device__ __forceinline__ void enter_next() {
    left_ = 0;
    do {
      ++share_;
      if (++phase_ == PHASES) {
        phase_ = 0;
        share_ -= PHASES;
        if (++layer_ == LAYERS) return;
      }
      units_left_ = share_->units;
    } while (units_left_ == 0);
    const uint64 to_layer = layer_ * share_->layer_stride;
    source_ = (const Vec4*)(share_->tiles + to_layer) + threadIdx.x % WARP;
    first_ = share_->first;
    left_ = share_->count;
    unit_jump_ = (share_->unit_stride / TILE_BYTES - (left_ + STAGE_TILES - 1) / STAGE_TILES * STAGE_TILES) * WARP;
    if (STAGE_SCALES > 0) {
      scales_ = (const uint32*)(share_->scales + to_layer) + WeightRing::lane_scale();
      scale_jump_ = share_->scale_stride / 4;
    }
  }

  WeightRing ring_;
  const Share* share_;
  const Vec4* source_;
  const uint32* scales_ = nullptr;
  int phase_ = -1, layer_ = 0, units_left_ = 0, first_ = 0, left_ = 0, unit_jump_ = 0, scale_jump_ = 0;
  int oldest_ = 0, held_ = 0;
};

// ---- Shared memory ----

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
};
constexpr int SHARED_BEFORE_RINGS = divided_up(sizeof(Shared), 128) * 128;
static_assert(SHARED_BEFORE_RINGS <= FIXED_SHARED_BYTES, "more shared memory than was planned");
constexpr int PAGE_BYTES = PAGE_VECS * 16;
constexpr int ALL_PAGES_BYTES = KEY_WARPS * 2 * PAGE_BYTES;

// This block's share of the attention: the last blocks have one, since the first have a row tile more of gate/up.
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

// The tokens' columns that a lane multiplies, for all tiles of its warp: they serve every row tile.
template <class C>
struct TokenColumns {
  uint32 word[C::MOST_TILES * TILE_STEPS][2];

  // `data`: pairs of the part's first k, and `rest_offset` words on the rests. Column 0 of the tensor-core
  // operand is the token, column 1 its rest; the others repeat the two, which costs nothing.
  __device__ __forceinline__ void load(const uint32* data, int rest_offset, int begin, int count) {
    const int lane = threadIdx.x % WARP;
    const uint32* column = data + lane / 4 % 2 * rest_offset + begin * TILE_STEPS * (TILE_K / 2) + lane % 4;
#pragma unroll
    for (int step = 0; step < C::MOST_TILES * TILE_STEPS; ++step) {
      const bool inside = step < C::FEWEST_TILES * TILE_STEPS || step < count * TILE_STEPS;
      word[step][0] = inside ? column[step * (TILE_K / 2)] : 0u;
      word[step][1] = inside ? column[step * (TILE_K / 2) + 4] : 0u;
    }
  }
};

// A warp's share of UNITS row tiles, the first of them `unit`: rows lane / 4 and lane / 4 + 8 of each into its
// `sums`. Two short ones at once, so that their chains of sums overlap.
template <class C, int UNITS>
__device__ __forceinline__ void multiply_units(LayerStream& stream, const TokenColumns<C>& tokens, int unit,
                                               float* sums, int sums_stride) {
  static_assert(UNITS == 1 || C::STAGES_A_UNIT == 1, "tiles of several units are in registers at once");
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, begin = C::begin(warp);
  const int first = C::first_tile() + begin, count = C::begin(warp + 1) - begin;
  constexpr int TILES = at_most(STAGE_TILES, C::MOST_TILES);
  Accumulator sum[UNITS][2] = {};
  RowScales row_scales[UNITS];
#pragma unroll
  for (int stage = 0; stage < C::STAGES_A_UNIT; ++stage) {
    const int done = stage * STAGE_TILES;
    if (done >= C::FEWEST_TILES && done >= count) break;
    Vec4 weights[UNITS][TILES];
    RowScales scales[UNITS][TILES];
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
      const Vec4* tiles = stream.wait();
#pragma unroll
      for (int i = 0; i < TILES; ++i) {
        const int tile = done + i;
        if (tile >= C::MOST_TILES) break;
        // Zeros in place of a tile that only other warps have: a branch would keep sums from overlapping.
        const bool mine = tile < C::FEWEST_TILES || tile < count;
        weights[u][i] = mine ? tiles[i * WARP] : Vec4{0, 0, 0, 0};
        if constexpr (WEIGHT_BITS == 4)
          scales[u][i] = mine ? stream.group_scales(first + done, i) : RowScales{0.0f, 0.0f};
      }
      if constexpr (WEIGHT_BITS == 8) row_scales[u] = stream.row_scales();
      const int units_behind = C::units() - 1 - unit - u;
      stream.advance((units_behind + 1) * C::STAGES_A_UNIT - 1 - stage < HELD_STAGES);
    }
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      const int tile = done + i;
      if (tile >= C::MOST_TILES) break;
      const int in_chain = tile % C::CHAIN_TILES;  // which of the two sums: as in skinny_gemm.cuh
#pragma unroll
      for (int u = 0; u < UNITS; ++u) {
        Accumulator group = {};
#pragma unroll
        for (int step = 0; step < TILE_STEPS; ++step) {
          const uint32(&token)[2] = tokens.word[tile * TILE_STEPS + step];
          Accumulator& into = WEIGHT_BITS == 4 ? group : sum[u][(in_chain * TILE_STEPS + step) % 2];
          mma(into, weights_as_bf16(weights[u][i], step), token[0], token[1]);
        }
        if constexpr (WEIGHT_BITS == 4) add_scaled(sum[u][in_chain % 2], scales[u][i], group);
      }
    }
  }
#pragma unroll
  for (int u = 0; u < UNITS; ++u) {
    Accumulator& whole = sum[u][0];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      whole.v[j] += sum[u][1].v[j];
      if (WEIGHT_BITS == 8)
        whole.v[j] = __fmul_rn(whole.v[j], count > 0 ? (j < 2 ? row_scales[u].low : row_scales[u].high) : 1.0f);
    }
    if (lane % 4 != 0) continue;
    sums[u * sums_stride + lane / 4] = whole.v[0] + whole.v[1];
    sums[u * sums_stride + lane / 4 + 8] = whole.v[2] + whole.v[3];
  }
}

// All row tiles of this block. `store(row_tile, row, low, high)` gets rows `row` (0..7) and `row` + 8. `sums` must
// be at rest. Returns with all stores done, as far as thread 0 is concerned. `multiplied`: the clock's point.
template <class C, class Store>
__device__ __forceinline__ void multiply(Shared& shared, LayerStream& stream, const TokenColumns<C>& tokens,
                                         Store store, const PhaseClock& clock, int multiplied) {
  const int warp = threadIdx.x / WARP, units = C::units();
  constexpr int AT_ONCE_UNITS = C::STAGES_A_UNIT == 1 && WEIGHT_BITS < 16 ? 2 : 1;
  constexpr int STRIDE = GEMM_WARPS * TILE_ROWS;
  for (int first = 0; first < units; first += BATCH_UNITS) {
    const int batch = min(BATCH_UNITS, units - first);
    float* sums = shared.sums[0][warp];
    int unit = 0;
#pragma unroll 1
    for (; unit + AT_ONCE_UNITS <= batch; unit += AT_ONCE_UNITS)
      multiply_units<C, AT_ONCE_UNITS>(stream, tokens, first + unit, sums + unit * STRIDE, STRIDE);
    if (AT_ONCE_UNITS > 1 && unit < batch)
      multiply_units<C, 1>(stream, tokens, first + unit, sums + unit * STRIDE, STRIDE);
    clock.mark(multiplied);
    __syncthreads();
    for (int item = threadIdx.x; item < batch * 8; item += GEMM_THREADS) {
      const int row = item % 8, unit = item / 8;
      float low = 0.0f, high = 0.0f;
#pragma unroll
      for (int each = 0; each < GEMM_WARPS; ++each) {
        low += shared.sums[unit][each][row];
        high += shared.sums[unit][each][row + 8];
      }
      store(C::row_tile(first + unit), row, low, high);
    }
    clock.mark(multiplied + 1);
    __syncthreads();
  }
}

// By the whole block. False: given up.
__device__ __forceinline__ bool pass_gate(Shared& shared, GridGates* gates, int gate, uint32 arrivals) {
  if (threadIdx.x == 0 && !wait_at_gate(gates, gate, arrivals)) shared.stop = 1;
  __syncthreads();
  return !shared.stop;
}

// By the whole block, after a barrier behind their stores.
__device__ __forceinline__ void arrive(GridGates* gates, int gate, LayerStream& weights) {
  if (threadIdx.x == 0) add_release(&gates->arrived[gate].value);
  if (HELD_STAGES > 0) {
    __syncthreads();
    weights.resume();
  }
}

using Row = ResidualRow<GEMM_THREADS>;

__device__ __forceinline__ void normalise(Shared& shared, const Row& row, const Row& gain) {
  row.split(shared.vector, gain, row.inverse_rms(shared.scratch));
  __syncthreads();
}

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
  copy_async_wait<0>();  // the weights on their way have had the time at the gate
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

// False: given up.
__device__ __forceinline__ bool run_layer(Shared& shared, LayerStream& weights, Vec4* pages,
                                          const DecodeLayers& args, const AttentionShare& share, int splits,
                                          int layer, Row& stream) {
  const int warp = threadIdx.x / WARP;
  const int slot = shared.state.action.first;
  const LayerStride& stride = args.stride;
  GridGates* gates = args.gates;
  const uint32 turn = layer + 1;
  Row gain;

  const PhaseClock clock(args.times, layer);
  clock.mark(LAYER_BEGUN);
  gain.load(args.norms + 2 * layer * HIDDEN);
  for (int i = threadIdx.x; i < Qkv::units() * TILE_ROWS; i += GEMM_THREADS)
    shared.bias[i] =
        args.bias[(layer * QKV_ROW_TILES + Qkv::row_tile(i / TILE_ROWS)) * TILE_ROWS + i % TILE_ROWS];
  if (layer > 0) {
    if (!pass_gate(shared, gates, GATE_DOWN, layer * Down::ACTIVE)) return false;
    clock.mark(PAST_DOWN);
    stream.add_partials({nullptr, args.down_partials, DOWN_PARTS, HIDDEN}, 0);
  }
  normalise(shared, stream, gain);
  clock.mark(QKV_NORMED);
  {
    TokenColumns<Qkv> tokens;
    const int begin = Qkv::begin(warp);
    tokens.load(shared.vector, HIDDEN / 2, begin, Qkv::begin(warp + 1) - begin);
    uint8* keys = args.pages + layer * stride.pages;
    const QkvRows rows{args.queries,     (uint16*)keys, (uint16*)(keys + stride.pages / 2),
                       shared.slot_turn, slot,          &shared.state};
    multiply<Qkv>(shared, weights, tokens, [&](int row_tile, int row, float low, float high) {
      const float* add = shared.bias + Qkv::unit_of(row_tile) * TILE_ROWS + row;
      rows.store(row_tile, row, 0, low + add[0], high + add[8]);
    }, clock, QKV_MULTIPLIED);
    if (Qkv::units() > 0) arrive(gates, GATE_QKV, weights);
  }

  if (share.mine) {
    if (!pass_gate(shared, gates, GATE_QKV, turn * Qkv::ACTIVE)) return false;
    clock.mark(PAST_QKV);
    attend(shared, pages, args, layer, share, clock);
    if (threadIdx.x == 0) add_release(&gates->arrived[GATE_ATTENTION].value);
  }

  gain.load(args.norms + (2 * layer + 1) * HIDDEN);
  if (Output::units() > 0) {
    if (!pass_gate(shared, gates, GATE_ATTENTION, turn * splits * KV_HEADS)) return false;
    clock.mark(PAST_ATTENTION);
    const int k_count = Output::tile_count() * WEIGHT_TILE_K;
    merge_splits(shared.vector, args.attended, args.softmax, splits, Output::first_tile() * WEIGHT_TILE_K,
                 k_count);
    clock.mark(SPLITS_MERGED);
    TokenColumns<Output> tokens;
    const int begin = Output::begin(warp);
    tokens.load(shared.vector, k_count / 2, begin, Output::begin(warp + 1) - begin);
    float* part = args.output_partials + Output::part() * HIDDEN;
    multiply<Output>(shared, weights, tokens, [&](int row_tile, int row, float low, float high) {
      part[row_tile * TILE_ROWS + row] = low;
      part[row_tile * TILE_ROWS + row + 8] = high;
    }, clock, OUTPUT_MULTIPLIED);
    arrive(gates, GATE_OUTPUT, weights);
  }

  if (!pass_gate(shared, gates, GATE_OUTPUT, turn * Output::ACTIVE)) return false;
  clock.mark(PAST_OUTPUT);
  stream.add_partials({nullptr, args.output_partials, OUTPUT_PARTS, HIDDEN}, 0);
  normalise(shared, stream, gain);
  clock.mark(GATE_UP_NORMED);
  {
    TokenColumns<GateUp> tokens;
    const int begin = GateUp::begin(warp);
    tokens.load(shared.vector, HIDDEN / 2, begin, GateUp::begin(warp + 1) - begin);
    multiply<GateUp>(shared, weights, tokens, [&](int row_tile, int row, float gate, float up) {
      store_activated(args.activated, row_tile * 8 + row, 0, gate, up);
    }, clock, GATE_UP_MULTIPLIED);
    if (GateUp::units() > 0) arrive(gates, GATE_GATE_UP, weights);
  }

  fetch_page(shared, pages, args, layer + 1, share);
  if (Down::units() > 0) {
    if (!pass_gate(shared, gates, GATE_GATE_UP, turn * GateUp::ACTIVE)) return false;
    clock.mark(PAST_GATE_UP);
    TokenColumns<Down> tokens;
    const int begin = Down::begin(warp);
    tokens.load((const uint32*)args.activated + Down::first_tile() * WEIGHT_TILE_K / 2, INTERMEDIATE / 2, begin,
                Down::begin(warp + 1) - begin);
    float* part = args.down_partials + Down::part() * HIDDEN;
    multiply<Down>(shared, weights, tokens, [&](int row_tile, int row, float low, float high) {
      part[row_tile * TILE_ROWS + row] = low;
      part[row_tile * TILE_ROWS + row + 8] = high;
    }, clock, DOWN_MULTIPLIED);
    arrive(gates, GATE_DOWN, weights);
  }
  return true;
}

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, 1) decode_layers(const DecodeLayers args) {
  extern __shared__ __align__(128) char memory[];
  Shared& shared = *(Shared*)memory;
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  const int splits = splits_in_use(args.state, false);
  const AttentionShare share(splits);
  const bool holds_pages = blockIdx.x >= BLOCKS - ATTENTION_UNITS;
  Vec4* pages = (Vec4*)(memory + SHARED_BEFORE_RINGS);
  Vec4* rings = pages + (holds_pages ? ALL_PAGES_BYTES / 16 : 0);

  for (int i = threadIdx.x; i < sizeof(ChunkState) / 4; i += GEMM_THREADS)
    ((int*)&shared.state)[i] = ((const int*)args.state)[i];
  if (threadIdx.x == 0) shared.stop = 0;
  if (lane == 0) {
    Share* shares = shared.shares[warp];
    describe<Qkv>(shares[0], args.qkv, args.stride.qkv, warp);
    describe<Output>(shares[1], args.output, args.stride.output, warp);
    describe<GateUp>(shares[2], args.gate_up, args.stride.gate_up, warp);
    describe<Down>(shares[3], args.down, args.stride.down, warp);
  }
  __syncthreads();
  fetch_page(shared, pages, args, 0, share);
  LayerStream weights(rings + warp * STAGES * STAGE_LANE_VECS, shared.shares[warp]);
  weights.fill();
  for (int i = threadIdx.x; i < 16 * QUERY_STRIDE; i += GEMM_THREADS) shared.queries[i] = 0.0f;
  const ChunkState& state = shared.state;
  const int slot = state.action.first, entry = share.split * KEY_WARPS + warp;
  for (int i = threadIdx.x; i < ANGLES; i += GEMM_THREADS) shared.slot_turn[i] = args.rotary[slot * ANGLES + i];
  if (share.mine && warp < KEY_WARPS && entry < state.pages) {
    const int rank = state.base[state.pages - 1] + slot - state.base[entry];
    for (int i = lane; i < ANGLES; i += WARP) shared.angles[warp][i] = args.rotary[rank * ANGLES + i];
  }
  Row stream;
  stream.load(args.input);
  bool running = true;
  int stop = 0;
  for (int layer = 0; layer < LAYERS && running; ++layer) {
    if (blockIdx.x == 0 && threadIdx.x == GEMM_THREADS - 1) {
      if (stop != 0) give_up(args.gates, STOPPED);
      stop = *args.stop;  // looked at a layer later, when it has arrived
    }
    running = run_layer(shared, weights, pages, args, share, splits, layer, stream);
  }
  if (blockIdx.x == 0) stream.store(args.residual_out);
  if (threadIdx.x == 0) leave_gates(args.gates, args.gate_given_up);
}
