// SPDX-License-Identifier: Apache-2.0
// How keys and values are kept: a row tile's sixteen numbers of one token written into a page, and what a lane
// loads of a page as tensor-core operands.
//
// An int8 times a power of two is a bfloat16, exactly. So attention multiplies bfloat16 in both formats, in the
// same order, and passes agree on their bits in both. The rule is that of vla_edge_ros/model/kept_kv.py, bit for
// bit.
#pragma once
#include "integers.cuh"
#include "kv_page.cuh"

// Of a row tile and a token, in the eight lanes that have its rows: all of them call this together.
struct Int8Group {
  uint16 scale;  // bfloat16
  float inverse;

  __device__ __forceinline__ Int8Group(float low, float high) {
    const uint32 lanes = 0xffu << (threadIdx.x % WARP / 8 * 8);
    // As bits, NaN and infinity are the largest.
    uint32 largest = max(__float_as_uint(low) & 0x7fffffffu, __float_as_uint(high) & 0x7fffffffu);
#pragma unroll
    for (int other = 1; other < 8; other *= 2)
      largest = max(largest, __shfl_xor_sync(lanes, largest, other));
    // The largest is 64 to 128 steps; from 127.5 on it is clipped to 127.
    const uint32 exponent = max(largest >> 23, 7u) - 6;
    scale = largest < 0x7f800000u ? exponent << 7 : 0x7fc0;  // what is not finite is not hidden
    inverse = __uint_as_float((254 - exponent) << 23);
  }

  __device__ __forceinline__ uint8 integer(float value) const {
    return (uint8)max(-127, min(127, __float2int_rn(__fmul_rn(value, inverse))));
  }
};

// Keys or values of one page and KV head. `low` and `high`: rows `row` and `row` + 8 of a row tile, at element
// offsets `low_at` and `high_at`; `scale_at`: that of the row tile's scale.
__device__ __forceinline__ void keep_int8(KeptNumber* page, int row, int low_at, int high_at, int scale_at,
                                          float low, float high) {
  const Int8Group group(low, high);
  page[int8_byte(low_at)] = group.integer(low);
  page[int8_byte(high_at)] = group.integer(high);
  if (row == 0) ((uint16*)(page + PAGE_NUMBERS))[scale_at] = group.scale;
}

// -0 in place of nothing to add leaves the sign of a zero.
__device__ __forceinline__ uint32 scaled_int8(uint32 word, uint32 scales) {
  return fma_bf16(int8_to_bf16(word), scales, 0x80008000u);
}

// A lane's registers of keys as bfloat16 pairs; `piece` counts lanes and operands in key_offset's order. `keys`
// begins with a page.
__device__ __forceinline__ Vec4 load_keys(const Vec4* keys, int piece) {
  if constexpr (KV_BITS == 8) {
    const uint2 words = ((const uint2*)keys)[piece];
    const uint32 both = ((const uint32*)((const uint8*)keys + PAGE_NUMBERS))[piece / 4];
    const uint32 even = __byte_perm(both, 0, 0x1010), odd = __byte_perm(both, 0, 0x3232);
    return {scaled_int8(words.x, even), scaled_int8(words.x >> 8, odd), scaled_int8(words.y, even),
            scaled_int8(words.y >> 8, odd)};
  } else {
    return keys[piece];
  }
}

// The same of values: slots 16 * s and dims 16 * d on.
__device__ __forceinline__ Vec4 load_values(const Vec4* values, int s, int d) {
  const int lane = threadIdx.x % WARP;
  const int piece = (s * HEAD_TILES + d) * WARP + lane;
  if constexpr (KV_BITS == 8) {
    const uint2 words = ((const uint2*)values)[piece];
    const Vec4* scales = (const Vec4*)((const uint8*)values + PAGE_NUMBERS);
    const Vec4 of = scales[(s * (HEAD_TILES / 2) + d % (HEAD_TILES / 2)) * 4 + lane % 4];
    return {scaled_int8(words.x, of.x), scaled_int8(words.x >> 8, of.y), scaled_int8(words.y, of.z),
            scaled_int8(words.y >> 8, of.w)};
  } else {
    return values[piece];
  }
}
