// SPDX-License-Identifier: Apache-2.0
// quantise_int8, quantise_int4: rows of a matrix into tiles of integers in operand order (weight_format.cuh),
// and their scales. At load time only. Bit for bit the rules of vla_edge_ros/model/quantise.py.
//
//   tiles   bytes  [row tile][k_tiles][512] of the whole packed matrix, zeroed before
//   scales  int8: f32 [row tile][row % 8][row / 8 of the tile]; int4: bf16 [row tile][group of 128 k] and the
//           same rest
//   from    whole rows, first_row to first_row + rows of a [..][columns] matrix
// `row_shift`, `order`, `period_or_lane`, `not_finite`: as in pack_tiles.
//
// The largest magnitude is found among bit patterns, where infinity and NaN are larger than all numbers: one look
// at it is a look at all elements.
#include "packing.cuh"

constexpr int LOAD_WARPS = LOAD_THREADS / WARP;
constexpr int TILE_BYTES = 512;
constexpr int GROUP = 128;

// Position of a row's scale among the 16 of its row tile.
__device__ __forceinline__ int scale_lane(uint64 row) { return row % 8 * 2 + row % 16 / 8; }

__device__ __forceinline__ int quantise(float value, float scale, int least, int most) {
  if (scale == 0.0f) return 0;
  return (int)fminf(fmaxf(rintf(__fdiv_rn(value, scale)), (float)least), (float)most);
}

// Warp = one row at a time.
extern "C" __global__ void __launch_bounds__(LOAD_THREADS)
    quantise_int8(uint8* tiles, float* scales, const void* from, int type, uint64 first_row, uint64 rows,
                  uint64 columns, uint64 k_tiles, uint64 row_shift, int order, int period_or_lane,
                  int* not_finite) {
  constexpr int TILE_K = 32;
  const int lane = threadIdx.x % WARP;
  for (uint64 r = (uint64)blockIdx.x * LOAD_WARPS + threadIdx.x / WARP; r < rows;
       r += (uint64)gridDim.x * LOAD_WARPS) {
    uint32 top = 0;
    for (uint64 k = lane; k < columns; k += WARP)
      top = max(top, __float_as_uint(load_element(from, r * columns + k, type)) & 0x7fffffffu);
    top = __reduce_max_sync(ALL_LANES, top);
    if (lane == 0 && is_no_bfloat16(top)) *not_finite = 1;
    const float scale = __fdiv_rn(__uint_as_float(top), 127.0f);
    const uint64 row = packed_row(first_row + r, order, period_or_lane) + row_shift;
    if (lane == 0) scales[row / 16 * 16 + scale_lane(row)] = scale;
    uint8* tile_row = tiles + row / 16 * k_tiles * TILE_BYTES;
    for (uint64 k = lane; k < columns; k += WARP) {
      const int in_k = k % TILE_K;
      const int at = tile_lane(row % 16, in_k) * 16 + in_k / 8 * 4 + in_k % 2 * 2 + row % 16 / 8;
      const float value = load_element(from, r * columns + k, type);
      tile_row[k / TILE_K * TILE_BYTES + at] = (uint8)quantise(value, scale, -127, 127);
    }
  }
}

// Warp = one group of one row at a time; a lane has the four elements that share two bytes.
extern "C" __global__ void __launch_bounds__(LOAD_THREADS)
    quantise_int4(uint8* tiles, uint16* scales, const void* from, int type, uint64 first_row, uint64 rows,
                  uint64 columns, uint64 k_tiles, uint64 row_shift, int order, int period_or_lane,
                  int* not_finite) {
  constexpr int TILE_K = 64;
  const int lane = threadIdx.x % WARP;
  const uint64 groups = (columns + GROUP - 1) / GROUP;  // the last one may be shorter
  for (uint64 i = (uint64)blockIdx.x * LOAD_WARPS + threadIdx.x / WARP; i < rows * groups;
       i += (uint64)gridDim.x * LOAD_WARPS) {
    const uint64 r = i / groups, group = i % groups;
    const uint64 k = group * GROUP + lane / 4 * 16 + lane % 4 * 2;
    float value[4];  // k, k + 1, k + 8, k + 9
    uint32 top = 0;  // magnitude, and below it whether positive: a tie goes to the positive one
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const uint64 at = k + e % 2 + e / 2 * 8;
      value[e] = at < columns ? load_element(from, r * columns + at, type) : 0.0f;
      const uint32 bits = __float_as_uint(value[e]);
      top = max(top, bits << 1 | (bits >> 31 ^ 1));
    }
    top = __reduce_max_sync(ALL_LANES, top);
    if (lane == 0 && is_no_bfloat16(top >> 1)) *not_finite = 1;
    const float extreme = __uint_as_float(top >> 1 | (~top & 1) << 31);
    const uint16 scale_bits = float_to_bf16(extreme * -0.125f);
    const float scale = bf16_to_float(scale_bits);
    const uint64 row = packed_row(first_row + r, order, period_or_lane) + row_shift;
    if (lane == 0) scales[(row / 16 * groups + group) * 16 + scale_lane(row)] = scale_bits;
    if (k >= columns) continue;  // no element of these bytes is inside
    uint8* word = tiles + (row / 16 * k_tiles + k / TILE_K) * TILE_BYTES + tile_lane(row % 16, k) * 16 +
                  k % TILE_K / 16 * 4 + row % 16 / 8;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int near = quantise(value[e], scale, -8, 7), far = quantise(value[e + 2], scale, -8, 7);
      word[2 * e] = (uint8)((near & 15) | (far & 15) << 4);
    }
  }
}
