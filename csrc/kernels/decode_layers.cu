// SPDX-License-Identifier: Apache-2.0
// decode_layers: all layers of one decode step in one persistent kernel, a block a multiprocessor.
//
// The same sums in the same order as the separate kernels of a CUDA graph, qkv.cu to down_projection.cu, so
// their bits are equal. What differs is that weights do not stop at the end of a phase: each of eight warps
// streams its share of all layers, in the order of use (layer_stream.cuh), and what it has asked for arrives
// while its block waits for others at a grid barrier (grid_barrier.cuh). Of a layer's barriers only those around
// the MLP and before QKV are for all blocks; attention and what feeds it concern those that have a share of it.
//
// What is on its way delays all that comes behind it. So a phase defers the loads of its last DEFERRED_STAGES
// until it has arrived at its barrier, and then issues them a stage at a time. Blocks that have no share of the
// attention prefetch meanwhile PREFETCH_UNITS row tiles a block of gate/up into the L2, at a pace that leaves
// the memory free for others.
//
//   input          f32   [HIDDEN], the residual stream before the first layer
//   residual_out   f32   [HIDDEN], the stream before the last layer's down projection, whose partial sums are
//                        to be added
//   weights, norms, bias, KV pages: of layer 0, those of the next layer follow at the strides
//   scratch of one step: queries, attended, softmax, output_partials, activated, down_partials, as the
//   separate kernels have them
//
// A block's residual stream stays in registers: each adds all partial sums for itself, in order. Scratch is
// written again only after all that need it have arrived at some barrier behind their reading. (A block that has
// a share of neither QKV nor gate/up, in a small model, arrives at none; its stream may be wrong, and nothing is
// made of it.)
#include "activated.cuh"
#include "decode_attention.cuh"
#include "decode_product.cuh"
#include "residual.cuh"

static_assert(ALONE_ON_SM, "a persistent kernel is compiled with PERSISTENT");
static_assert(TOKENS == 1 && FRAME_TOKENS == 0, "a decode step");
static_assert(ROW_WARPS == 1 && KEY_WARPS <= GEMM_WARPS, "one tile of query rows a KV head");
static_assert(MAX_PAGES <= ACTION_SPLITS * KEY_WARPS, "a key warp has one page");

// By the whole block. False: the launch was cancelled.
__device__ __forceinline__ bool pass_barrier(Shared& shared, GridBarriers* barriers, int barrier, uint32 arrivals) {
  if (threadIdx.x == 0) {
    if (!wait_at_barrier(barriers, barrier, arrivals)) shared.stop = 1;
    if (barrier == BARRIER_ATTENTION) shared.attended = arrivals;
  }
  __syncthreads();
  return !shared.stop;
}

// By the whole block, after a barrier behind their stores.
__device__ __forceinline__ void arrive(GridBarriers* barriers, int barrier, LayerStream& weights) {
  if (threadIdx.x == 0) add_release(&barriers->arrived[barrier].value);
  if (DEFERRED_STAGES > 0) {
    __syncthreads();
    weights.resume(threadIdx.x >= WARP);  // the first warp's next task is to poll
  }
}

constexpr int FREE_BLOCKS = BLOCKS - ATTENTION_UNITS;
// A request of a warp, and the time between two of them: measured (docs/explanation/engine-log.md, 21).
constexpr int PREFETCH_BYTES = 4096, PREFETCH_CYCLES = 1000;

// By the warps of a block without a share of the attention, but for the first one, which waits at the barrier.
// From the second row tile of each block on: the first one is in the rings.
__device__ __forceinline__ void prefetch_weights(const Shared& shared, const uint8* gate_up, uint32 arrivals) {
  constexpr int ROUND = GateUp::ACROSS * GateUp::K_TILES * TILE_BYTES;  // a row tile of each block
  constexpr int UNITS = at_most(PREFETCH_UNITS, GateUp::ROW_TILES / GateUp::ACROSS - 1), WARPS = GEMM_WARPS - 1;
  uint32 begun = clock();
  for (int piece = (int)blockIdx.x * WARPS + (int)threadIdx.x / WARP - 1; piece < UNITS * (ROUND / PREFETCH_BYTES);
       piece += FREE_BLOCKS * WARPS) {
    while ((uint32)clock() - begun < PREFETCH_CYCLES)
      if (shared.attended == arrivals) return;
    const uint8* line = gate_up + ROUND + (uint64)piece * PREFETCH_BYTES + threadIdx.x % WARP * (PREFETCH_BYTES / WARP);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
    begun += PREFETCH_CYCLES;
  }
}

using Row = ResidualRow<GEMM_THREADS>;

__device__ __forceinline__ void normalise(Shared& shared, const Row& row, const Row& gain) {
  row.split(shared.vector, gain, row.inverse_rms(shared.scratch));
  __syncthreads();
}

// False: the launch was cancelled.
__device__ __forceinline__ bool run_layer(Shared& shared, LayerStream& weights, Vec4* pages,
                                          const DecodeLayers& args, const AttentionShare& share, int splits,
                                          int layer, Row& stream) {
  const int slot = shared.state.action.first;
  const LayerStride& stride = args.stride;
  GridBarriers* barriers = args.barriers;
  const uint32 turn = layer + 1;
  Row gain;

  const PhaseClock clock(args.times, layer);
  clock.mark(LAYER_BEGUN);
  gain.load(args.norms + 2 * layer * HIDDEN);
  for (int i = threadIdx.x; i < Qkv::units() * TILE_ROWS; i += GEMM_THREADS)
    shared.bias[i] =
        args.bias[(layer * QKV_ROW_TILES + Qkv::row_tile(i / TILE_ROWS)) * TILE_ROWS + i % TILE_ROWS];
  if (layer > 0) {
    if (!pass_barrier(shared, barriers, BARRIER_DOWN, layer * Down::ACTIVE)) return false;
    clock.mark(PAST_DOWN);
    stream.add_partials({nullptr, args.down_partials, DOWN_SPLIT_K, HIDDEN}, 0);
  }
  normalise(shared, stream, gain);
  clock.mark(QKV_NORMED);
  {
    TokenColumns<Qkv> tokens;
    tokens.load(shared.vector, HIDDEN / 2);
    uint8* keys = args.pages + layer * stride.pages;
    const QkvRows rows{args.queries,     (KeptNumber*)keys, (KeptNumber*)(keys + stride.pages / 2),
                       shared.slot_turn, slot,              &shared.state};
    multiply<Qkv>(shared, weights, tokens, [&](int row_tile, int row, float low, float high) {
      const float* add = shared.bias + Qkv::unit_of(row_tile) * TILE_ROWS + row;
      rows.store(row_tile, row, 0, low + add[0], high + add[8]);
    }, clock, QKV_MULTIPLIED);
    if (Qkv::units() > 0) arrive(barriers, BARRIER_QKV, weights);
  }

  if (share.mine) {
    if (!pass_barrier(shared, barriers, BARRIER_QKV, turn * Qkv::ACTIVE)) return false;
    clock.mark(PAST_QKV);
    attend(shared, pages, args, layer, share, clock);
    if (threadIdx.x == 0) add_release(&barriers->arrived[BARRIER_ATTENTION].value);
  }

  gain.load(args.norms + (2 * layer + 1) * HIDDEN);
  if (Output::units() > 0) {
    const uint32 attended = turn * splits * KV_HEADS;
    if (PREFETCH_UNITS > 0 && blockIdx.x < FREE_BLOCKS && threadIdx.x >= WARP)
      prefetch_weights(shared, args.gate_up + layer * stride.gate_up, attended);
    if (!pass_barrier(shared, barriers, BARRIER_ATTENTION, attended)) return false;
    clock.mark(PAST_ATTENTION);
    const int k_count = Output::tile_count() * WEIGHT_TILE_K;
    merge_splits(shared.vector, args.attended, args.softmax, splits, Output::first_tile() * WEIGHT_TILE_K,
                 k_count);
    clock.mark(SPLITS_MERGED);
    TokenColumns<Output> tokens;
    tokens.load(shared.vector, k_count / 2);
    const PartialRows rows{args.output_partials + Output::k_split() * HIDDEN};
    multiply<Output>(shared, weights, tokens, rows, clock, OUTPUT_MULTIPLIED);
    arrive(barriers, BARRIER_OUTPUT, weights);
  }

  if (!pass_barrier(shared, barriers, BARRIER_OUTPUT, turn * Output::ACTIVE)) return false;
  clock.mark(PAST_OUTPUT);
  stream.add_partials({nullptr, args.output_partials, OUTPUT_SPLIT_K, HIDDEN}, 0);
  normalise(shared, stream, gain);
  clock.mark(GATE_UP_NORMED);
  {
    TokenColumns<GateUp> tokens;
    tokens.load(shared.vector, HIDDEN / 2);
    multiply<GateUp>(shared, weights, tokens, [&](int row_tile, int row, float gate, float up) {
      store_activated(args.activated, row_tile * 8 + row, 0, gate, up);
    }, clock, GATE_UP_MULTIPLIED);
    if (GateUp::units() > 0) arrive(barriers, BARRIER_GATE_UP, weights);
  }

  fetch_page(shared, pages, args, layer + 1, share);
  if (Down::units() > 0) {
    if (!pass_barrier(shared, barriers, BARRIER_GATE_UP, turn * GateUp::ACTIVE)) return false;
    clock.mark(PAST_GATE_UP);
    TokenColumns<Down> tokens;
    const uint32* activated = (const uint32*)args.activated + Down::first_tile() * WEIGHT_TILE_K / 2;
    tokens.load(activated, INTERMEDIATE / 2);
    const PartialRows rows{args.down_partials + Down::k_split() * HIDDEN};
    multiply<Down>(shared, weights, tokens, rows, clock, DOWN_MULTIPLIED);
    arrive(barriers, BARRIER_DOWN, weights);
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
  if (threadIdx.x == 0) {
    shared.stop = 0;
    shared.attended = 0;
  }
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
      if (stop != 0) cancel(args.barriers, STOPPED);
      stop = *args.stop;  // looked at a layer later, when it has arrived
    }
    running = run_layer(shared, weights, pages, args, share, splits, layer, stream);
  }
  if (blockIdx.x == 0) stream.store(args.residual_out);
  if (threadIdx.x == 0) leave_barriers(args.barriers, args.cancelled);
}
