// SPDX-License-Identifier: Apache-2.0
// random_bfloat16: seeded normal numbers, bit for bit those of vla_edge_ros/model/random_weights.py.
// pack_tiles: rows of a matrix into 16x16 tiles in operand order. to_float: a vector into float32.
// All run at load time only; they need no size macro.
#include "packing.cuh"

__device__ __forceinline__ uint64 splitmix64(uint64 x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

__device__ __forceinline__ double uniform(uint64 counter) {
  return ((double)(splitmix64(counter) >> 11) + 0.5) * 1.1102230246251565e-16;  // 2^-53
}

// Elements `first` (even) to `first` + `count` of the stream `key`. Thread = one Box-Muller pair at a time.
// The products are kept apart from the sums (__dmul_rn), as NumPy has them: a fused one would round once.
extern "C" __global__ void __launch_bounds__(LOAD_THREADS)
    random_bfloat16(uint16* out, uint64 key, uint64 first, uint64 count, double scale, double offset) {
  const uint64 step = (uint64)gridDim.x * LOAD_THREADS * 2;
  for (uint64 i = ((uint64)blockIdx.x * LOAD_THREADS + threadIdx.x) * 2; i < count; i += step) {
    const double radius = sqrt(-2.0 * log(uniform(key + first + i)));
    double sine, cosine;
    sincos(__dmul_rn(6.283185307179586, uniform(key + first + i + 1)), &sine, &cosine);
    const double even = __dadd_rn(offset, __dmul_rn(scale, __dmul_rn(radius, cosine)));
    const double odd = __dadd_rn(offset, __dmul_rn(scale, __dmul_rn(radius, sine)));
    out[i] = float_to_bf16((float)even);
    if (i + 1 < count) out[i + 1] = float_to_bf16((float)odd);
  }
}

//   tiles  bf16  [row tile][k_tiles][16x16 tile] of the whole packed matrix, zeroed before
//   from   rows first_row to first_row + rows of a [..][columns] matrix
// `row_shift` is added to the packed row: where this matrix starts among those packed together.
// `not_finite` is set where an element is not (packing.cuh).
extern "C" __global__ void __launch_bounds__(LOAD_THREADS)
    pack_tiles(uint16* tiles, const void* from, int type, uint64 first_row, uint64 rows, uint64 columns,
               uint64 k_tiles, uint64 row_shift, int order, int period_or_lane, int* not_finite) {
  const uint64 step = (uint64)gridDim.x * LOAD_THREADS;
  for (uint64 i = (uint64)blockIdx.x * LOAD_THREADS + threadIdx.x; i < rows * columns; i += step) {
    const uint64 k = i % columns;
    const uint64 row = packed_row(first_row + i / columns, order, period_or_lane) + row_shift;
    const int in_row = row % 16, in_k = k % 16;
    const int reg = in_row / 8 + 2 * (in_k / 8);
    tiles[(row / 16 * k_tiles + k / 16) * 256 + tile_lane(in_row, in_k) * 8 + reg * 2 + in_k % 2] =
        float_to_bf16(load_checked(from, i, type, not_finite));
  }
}

// A vector, rounded to bfloat16 as the checkpoint would hold it, in the row order of pack_tiles.
extern "C" __global__ void __launch_bounds__(LOAD_THREADS)
    to_float(float* out, const void* from, int type, uint64 count, uint64 row_shift, int order,
             int period_or_lane, int* not_finite) {
  const uint64 i = (uint64)blockIdx.x * LOAD_THREADS + threadIdx.x;
  if (i < count)
    out[packed_row(i, order, period_or_lane) + row_shift] =
        bf16_to_float(float_to_bf16(load_checked(from, i, type, not_finite)));
}
