// SPDX-License-Identifier: Apache-2.0
// Where the elements of a matrix go among the packed tiles: shared by all kernels that run at load time.
#pragma once
#include "common.cuh"

constexpr int LOAD_THREADS = 256;

// How a stored element becomes a number.
constexpr int BFLOAT16 = 0, FLOAT16 = 1, FLOAT32 = 2;

__device__ __forceinline__ float load_element(const void* from, uint64 i, int type) {
  if (type == FLOAT32) return ((const float*)from)[i];
  const uint16 bits = ((const uint16*)from)[i];
  if (type == BFLOAT16) return bf16_to_float(bits);
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// Whether bfloat16 cannot hold a number, by the bits of its magnitude: a NaN, an infinity, or above 3.396e38 what
// becomes one when it is rounded. Such a weight is marked in page-locked host memory, and the host, which has the
// elements, looks for its place.
__device__ __forceinline__ bool is_no_bfloat16(uint32 magnitude) { return magnitude + 0x8000u >= 0x7f800000u; }

__device__ __forceinline__ float load_checked(const void* from, uint64 i, int type, int* not_finite) {
  const float value = load_element(from, i, type);
  if (is_no_bfloat16(__float_as_uint(value) & 0x7fffffffu)) *not_finite = 1;
  return value;
}

// Where source row r goes among the packed rows.
//   PLAIN       packed row r
//   HALF_SPLIT  inside each `period` rows (one head): 8 rows of the lower half, then the 8 rows half a period
//   on INTERLEAVED 16-row tiles of which this matrix fills the 8 rows from `lane` on (gate: 0, up: 8)
constexpr int PLAIN = 0, HALF_SPLIT = 1, INTERLEAVED = 2;

__device__ __forceinline__ uint64 packed_row(uint64 row, int order, int period_or_lane) {
  if (order == HALF_SPLIT) {
    const int period = period_or_lane, half = period / 2, at = row % period;
    return row - at + at % half / 8 * 16 + at / half * 8 + at % 8;
  }
  if (order == INTERLEAVED) return row / 8 * 16 + period_or_lane + row % 8;
  return row;
}

// The lane whose 16 bytes of a tile hold element (row, k), whatever the format.
__device__ __forceinline__ int tile_lane(int row, int k) { return row % 8 * 4 + k % 8 / 2; }
