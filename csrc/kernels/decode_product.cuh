// SPDX-License-Identifier: Apache-2.0
// A block's share of one projection of one token: its warps take their tiles off their rings.
#pragma once
#include "decode_block.cuh"
#include "phase_clock.cuh"

// The tokens' columns that a lane multiplies, for all tiles of its warp: they serve every row tile.
template <class C>
struct TokenColumns {
  uint32 word[C::MOST_TILES * TILE_STEPS][2];

  // `data`: pairs of the split's first k, and `rest_offset` words on the rests. Column 0 of the tensor-core
  // operand is the token, column 1 its rest; the others repeat the two, which costs nothing.
  __device__ __forceinline__ void load(const uint32* data, int rest_offset) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int begin = C::begin(warp), count = C::begin(warp + 1) - begin;
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
      stream.advance((units_behind + 1) * C::STAGES_A_UNIT - 1 - stage < DEFERRED_STAGES);
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
    const RowScales scale = count > 0 ? row_scales[u] : RowScales{1.0f, 1.0f};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      whole.v[j] += sum[u][1].v[j];
      if (WEIGHT_BITS == 8) whole.v[j] = __fmul_rn(whole.v[j], j < 2 ? scale.low : scale.high);
    }
    if (lane % 4 != 0) continue;
    sums[u * sums_stride + lane / 4] = whole.v[0] + whole.v[1];
    sums[u * sums_stride + lane / 4 + 8] = whole.v[2] + whole.v[3];
  }
}

// Where a split-K projection leaves the partial sums of one split.
struct PartialRows {
  float* partial;

  __device__ __forceinline__ void operator()(int row_tile, int row, float low, float high) const {
    partial[row_tile * TILE_ROWS + row] = low;
    partial[row_tile * TILE_ROWS + row + 8] = high;
  }
};

// All row tiles of this block. `store(row_tile, row, low, high)` gets rows `row` (0..7) and `row` + 8. `sums`
// must be at rest. Returns with all stores done, as far as thread 0 is concerned. `multiplied`: the clock's
// point.
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
