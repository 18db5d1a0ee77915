// SPDX-License-Identifier: Apache-2.0
// out[row, token] = sum over k of weights[row, k] * tokens[token, k], for 1 to 64 tokens: the weights are
// read once, and their stream is the cost.
//
// Rounding what projections multiply to bfloat16, 8 bits, makes half of the error of a whole pass in
// bfloat16. A frame's tokens are rounded to float16, 11 bits, and the weights, bfloat16 in memory, become
// float16 in registers, exact for all but the tiniest. An action's token is split in two, its bfloat16 and
// the rest of the rounding, which take two token columns: 16 bits, and for nothing in a decode step, since
// the tensor cores have eight columns anyway (token_rows.cuh). Integer weights become either type, exactly
// (weight_format.cuh). Sums are float32.
//
// A block of 8 warps takes row tiles of 16 rows, blockIdx.x, blockIdx.x + gridDim.x, ...; blockIdx.y chooses
// a split of k (split-K: the consumer adds the splits, in order). Inside the block each warp takes an
// eighth of the split for every row tile; the warps' sums meet in shared memory and are added in warp order,
// so the result does not depend on timing.
#pragma once
#include "token_rows.cuh"
#include "weight_stream.cuh"

// Blocks that must fit on one SM: those of the next kernels come to fill their rings while this one computes.
constexpr int GEMM_BLOCKS = TOKENS == 1 ? 4 : 1;
constexpr int ROW_PAD = TOKENS == 1 ? 16 : 20;  // floats a token: 20 spreads a warp's writes over all banks
// BATCH_TILES: row tiles whose sums are kept before the warps meet, chosen by projection_tiling.py.
// SUM_SETS: with two sets of sums, where there is room, a warp begins the next row tile while others still add
// up the last one's, and the warps meet once a row tile instead of twice.
constexpr int SUM_FLOATS = BATCH_TILES * GEMM_WARPS * TOKENS * ROW_PAD;

// Dynamic shared memory, in this order: [weight rings][sums][token operand, where it is kept there].
constexpr int RING_BYTES = GEMM_WARPS * WeightStream::BYTES;
constexpr int GEMM_BYTES = RING_BYTES + SUM_SETS * SUM_FLOATS * 4;

// What is multiplied. One token: a vector of bfloat16 pairs, and `rest_offset` pairs on that of the rests;
// the other six columns repeat the two, which costs nothing and is not looked at. Several: in the order of
// operand_offset.
struct TokenOperand {
  const uint32* data;
  int rest_offset;

  // The registers of column tiles `tile` and, of two abreast, of the one beside it.
  __device__ __forceinline__ void load(uint2 (&pairs)[TILES_ABREAST], int k_tile, int tile) const {
    const int lane = threadIdx.x % WARP;
    if constexpr (TOKENS == 1) {
      const uint32* column = data + lane / 4 % 2 * rest_offset + k_tile * (TILE_K / 2) + lane % 4;
      pairs[0] = {column[0], column[4]};
    } else {
      load_pairs(pairs, (const uint2*)data + tile_offset(k_tile, tile) + lane * TILES_ABREAST);
    }
  }

  // From sixteen `first` on.
  __device__ __forceinline__ TokenOperand from(int first) const {
    return {data + first * (TOKENS == 1 ? TILE_K / 2 : COLUMN_TILES * WARP * 2), rest_offset};
  }

  __device__ __forceinline__ static int tile_offset(int k_tile, int tile) {
    return (k_tile * COLUMN_TILES + tile) * WARP;
  }

  __device__ __forceinline__ static void load_pairs(uint2 (&pairs)[TILES_ABREAST], const uint2* from) {
    if constexpr (TILES_ABREAST == 2) {
      const uint4 both = *(const uint4*)from;
      pairs[0] = {both.x, both.y};
      pairs[1] = {both.z, both.w};
    } else {
      pairs[0] = *from;
    }
  }
};

// Of several tokens: what one warp multiplies with every row tile, its slice of k, in its registers. So nothing
// of the operand is read twice, and shared memory has room for the weights' rings.
// OPERAND_STEPS: sixteens of the longest slice, chosen by projection_tiling.py; 0 where the operand is elsewhere.
struct TokenRegisters {
  uint2 kept[OPERAND_STEPS > 0 ? OPERAND_STEPS : 1][COLUMN_TILES / TILES_ABREAST][TILES_ABREAST];

  // `k_tile` must be known to the compiler.
  __device__ __forceinline__ void load(uint2 (&pairs)[TILES_ABREAST], int k_tile, int tile) const {
#pragma unroll
    for (int i = 0; i < TILES_ABREAST; ++i) pairs[i] = kept[k_tile][tile / TILES_ABREAST][i];
  }
};

class SkinnyGemm {
 public:
  // `k_steps`: sixteens of a whole row; this block multiplies share `k_split` of `split_k` of its tiles.
  __device__ __forceinline__ SkinnyGemm(char* shared, const Vec4* weights, int row_tiles, int k_steps,
                                        int k_split, int split_k)
      : sums_((float*)(shared + RING_BYTES)),
        row_tiles_(row_tiles),
        first_tile_(k_steps / TILE_STEPS * k_split / split_k),
        tile_count_(k_steps / TILE_STEPS * (k_split + 1) / split_k - first_tile_),
        warp_(threadIdx.x / WARP),
        slice_(warp_slice()),
        stream_((Vec4*)(shared + warp_ * WeightStream::BYTES), weights, k_steps / TILE_STEPS, slice_,
                blockIdx.x, gridDim.x, row_tiles) {
    stream_.fill();
  }

  __device__ __forceinline__ int first_k() const { return first_tile_ * WEIGHT_TILE_K; }
  __device__ __forceinline__ int k_count() const { return tile_count_ * WEIGHT_TILE_K; }

  // What this warp multiplies, from all `k` of the operand: in its registers; or, where they are too few, in
  // shared memory, where each warp copies its own slice and waits for no other; or, on a chip with little of
  // that, through the L2.
  __device__ __forceinline__ auto take_operand(void* shared_operand, const void* operand, int k) const {
    const int lane = threadIdx.x % WARP;
    if constexpr (OPERAND_STEPS > 0) {
      const uint2* from = (const uint2*)operand + TokenOperand::tile_offset(slice_.first * TILE_STEPS, 0);
      TokenRegisters mine{};
#pragma unroll
      for (int step = 0; step < OPERAND_STEPS; ++step) {
        if (step >= slice_.count * TILE_STEPS) continue;
#pragma unroll
        for (int t = 0; t < COLUMN_TILES; t += TILES_ABREAST)
          TokenOperand::load_pairs(mine.kept[step][t / TILES_ABREAST],
                                   from + TokenOperand::tile_offset(step, t) + lane * TILES_ABREAST);
      }
      return mine;
    } else {
      constexpr int STEP_VECS = TOKENS == 1 ? TILE_K * 2 / 16 : COLUMN_TILES * COLUMN_TILE_BYTES / 16;
      constexpr int VECS_A_TILE = TILE_STEPS * STEP_VECS;
      const Vec4* from = (const Vec4*)operand + first_tile_ * VECS_A_TILE;
      if (!OPERAND_IN_SHARED) return TokenOperand{(const uint32*)from, 0};
      Vec4* to = (Vec4*)shared_operand;
      const int first = (slice_.first - first_tile_) * VECS_A_TILE, count = slice_.count * VECS_A_TILE;
      for (int i = first + lane; i < first + count; i += WARP) {
        copy16_async(to + i, from + i);
        if (TOKENS == 1) copy16_async(to + tile_count_ * VECS_A_TILE + i, from + k / 8 + i);
      }
      copy_async_commit();
      copy_async_wait<0>();
      __syncwarp();
      return TokenOperand{(const uint32*)shared_operand, tile_count_ * WEIGHT_TILE_K / 2};
    }
  }

  // Multiply; `store(row_tile, row, token, low, high)` gets the sums of rows `row` (0..7) and `row` + 8 of
  // a row tile. `tokens` starts at this split's first k. Every thread of the block must call this.
  template <class Tokens, class Store>
  __device__ __forceinline__ void multiply(const Tokens& tokens, Store store) {
    float* sums = sums_;
    for (int first = blockIdx.x; first < row_tiles_; first += BATCH_TILES * gridDim.x) {
      const int left = (row_tiles_ - first + gridDim.x - 1) / gridDim.x;
      const int batch = min(BATCH_TILES, left);
      for (int i = 0; i < batch; ++i)
        multiply_tile(slice_of(tokens), sums + (i * GEMM_WARPS + warp_) * TOKENS * ROW_PAD);
      __syncthreads();
      for (int item = threadIdx.x; item < batch * TOKENS * 8; item += GEMM_THREADS) {
        const int row = item % 8, token = (item / 8) % TOKENS, i = item / (8 * TOKENS);
        const float* at = sums + (i * GEMM_WARPS * TOKENS + token) * ROW_PAD + row;
        float low = 0.0f, high = 0.0f;
#pragma unroll
        for (int warp = 0; warp < GEMM_WARPS; ++warp) {
          low += at[warp * TOKENS * ROW_PAD];
          high += at[warp * TOKENS * ROW_PAD + 8];
        }
        store(first + i * (int)gridDim.x, row, token, low, high);
      }
      if (SUM_SETS == 1)
        __syncthreads();
      else  // whoever writes this set again has met all others after they had read it
        sums = sums == sums_ ? sums_ + SUM_FLOATS : sums_;
    }
  }

 private:
  __device__ __forceinline__ WarpSlice warp_slice() const {
    const int begin = tile_count_ * warp_ / GEMM_WARPS, end = tile_count_ * (warp_ + 1) / GEMM_WARPS;
    return {first_tile_ + begin, end - begin};
  }

  __device__ __forceinline__ TokenOperand slice_of(const TokenOperand& tokens) const {
    return tokens.from((slice_.first - first_tile_) * TILE_STEPS);
  }
  __device__ __forceinline__ const TokenRegisters& slice_of(const TokenRegisters& tokens) const {
    return tokens;
  }

  // `sums`: this warp's, [TOKENS][ROW_PAD].
  template <class Tokens>
  __device__ __forceinline__ void multiply_tile(const Tokens& tokens, float* sums) {
    const int lane = threadIdx.x % WARP;
    // Two chains of sums, for even and odd steps: one would wait for each product's latency. A tile of int4
    // is a chain of its own, which begins at zero and joins one of the two by way of its scale.
    Accumulator sum[2][COLUMN_TILES] = {};
    RowScales row_scales{};
    auto multiply_next = [&](int done) {
      const Vec4* tiles = stream_.wait();
      if constexpr (WEIGHT_BITS == 8) row_scales = stream_.row_scales();
      // Without a question before each tile their chains overlap.
      if (done + STAGE_TILES <= slice_.count)
        multiply_stage(sum, tiles, STAGE_TILES, tokens, done);
      else
        multiply_stage(sum, tiles, slice_.count - done, tokens, done);
      stream_.advance();
    };
    if constexpr (OPERAND_STEPS > 0) {
      // Registers have no index at run time: the longest slice is written out.
      constexpr int TIMES = (OPERAND_STEPS / TILE_STEPS + STAGE_TILES - 1) / STAGE_TILES;
#pragma unroll
      for (int i = 0; i < TIMES; ++i)
        if (i * STAGE_TILES < slice_.count) multiply_next(i * STAGE_TILES);
    } else {
      for (int done = 0; done < slice_.count; done += STAGE_TILES) multiply_next(done);
    }
#pragma unroll
    for (int t = 0; t < COLUMN_TILES; ++t) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum[0][t].v[j] += sum[1][t].v[j];
        // Rounded by itself: fused with the sum that follows, it would differ from pass to pass.
        if (WEIGHT_BITS == 8)
          sum[0][t].v[j] = __fmul_rn(sum[0][t].v[j], j < 2 ? row_scales.low : row_scales.high);
      }
    }
    float* at = sums + lane / 4;
    if (TOKENS == 1) {
      if (lane % 4 == 0) {  // columns 0 and 1: the token and its rest
        at[0] = sum[0][0].v[0] + sum[0][0].v[1];
        at[8] = sum[0][0].v[2] + sum[0][0].v[3];
      }
      return;
    }
#pragma unroll
    for (int t = 0; t < FRAME_TILES + ACTION_TILES; ++t) {
      const int tile = t < FRAME_TILES ? t : 2 * t - FRAME_TILES;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int token = t * TILE_TOKENS + (lane % 4) * 2 + j % 2;
        float value = sum[0][tile].v[j];
        if (t >= FRAME_TILES) value += sum[0][tile + 1].v[j];  // the rest's
        at[token * ROW_PAD + (j / 2) * 8] = value;
      }
    }
  }

  // The first `count` tiles of a stage, which begins `done` tiles into the slice.
  template <class Tokens>
  __device__ __forceinline__ void multiply_stage(Accumulator (&sum)[2][COLUMN_TILES], const Vec4* tiles,
                                                 int count, const Tokens& tokens, int done) const {
#pragma unroll
    for (int i = 0; i < STAGE_TILES; ++i) {
      if (i >= count || (OPERAND_STEPS > 0 && done + i >= OPERAND_STEPS / TILE_STEPS)) break;
      const int k_step = (done + i) * TILE_STEPS;
      if constexpr (WEIGHT_BITS == 4) {
        Accumulator group[COLUMN_TILES] = {};
#pragma unroll
        for (int step = 0; step < TILE_STEPS; ++step)
          multiply_step(group, tiles[i * WARP], step, tokens, k_step);
        const RowScales scales = stream_.group_scales(slice_.first + done, i);
#pragma unroll
        for (int t = 0; t < COLUMN_TILES; ++t) add_scaled(sum[i % 2][t], scales, group[t]);
      } else {
#pragma unroll
        for (int step = 0; step < TILE_STEPS; ++step)
          multiply_step(sum[(i * TILE_STEPS + step) % 2], tiles[i * WARP], step, tokens, k_step);
      }
    }
  }

  // Step `step` of one weight tile, whose first one meets sixteen `k_step` of the slice.
  template <class Tokens>
  __device__ __forceinline__ static void multiply_step(Accumulator (&sum)[COLUMN_TILES], const Vec4& tile,
                                                       int step, const Tokens& tokens, int k_step) {
    const Vec4 a = weights_as_bf16(tile, step);
    const Vec4 half = FRAME_TILES > 0 ? weights_as_half(tile, step) : a;
#pragma unroll
    for (int first = 0; first < COLUMN_TILES; first += TILES_ABREAST) {
      uint2 pairs[TILES_ABREAST];
      tokens.load(pairs, k_step + step, first);
#pragma unroll
      for (int i = 0; i < TILES_ABREAST; ++i) {
        if (first + i < FRAME_TILES)
          mma_half(sum[first + i], half, pairs[i].x, pairs[i].y);
        else
          mma(sum[first + i], a, pairs[i].x, pairs[i].y);
      }
    }
  }

  float* sums_;
  int row_tiles_, first_tile_, tile_count_, warp_;
  WarpSlice slice_;
  WeightStream stream_;
};
