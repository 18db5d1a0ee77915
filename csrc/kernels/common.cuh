// SPDX-License-Identifier: Apache-2.0
// Types, bfloat16 as raw bits, warp and block reductions, programmatic dependent launch.
//
// Nothing is included, so that a kernel compiles with NVRTC alone, on a machine without CUDA headers. Sizes
// arrive as -D macros; their list is in vla_edge_ros/engines/cuda/plan/sizes.py.
#pragma once

using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

constexpr int WARP = 32;
constexpr uint32 ALL_LANES = 0xffffffffu;

struct alignas(16) Vec4 {
  uint32 x, y, z, w;
};

__device__ __forceinline__ float bf16_to_float(uint16 bits) { return __uint_as_float((uint32)bits << 16); }

__device__ __forceinline__ float2 bf16_pair(uint32 pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

// Two floats as one bfloat16 pair, round to nearest even: `low` in the lower half.
__device__ __forceinline__ uint32 pack_bf16(float low, float high) {
  uint32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ uint16 float_to_bf16(float value) { return (uint16)pack_bf16(value, 0.0f); }

// A kernel that is compiled for several kinds of pass gives a token the same bits in each, so no product may be
// contracted with a sum where the compiler likes to: those that matter name their operation, here and with
// __fmaf_rn and __fmul_rn elsewhere.

// Two floats as a bfloat16 pair, and what the rounding left as another: together 16 bits.
__device__ __forceinline__ uint32 split_bf16(float low, float high, uint32& rest) {
  const uint32 pair = pack_bf16(low, high);
  rest = pack_bf16(__fsub_rn(low, __uint_as_float(pair << 16)),
                   __fsub_rn(high, __uint_as_float(pair & 0xffff0000u)));
  return pair;
}

// Two floats as one float16 pair: what projections multiply (skinny_gemm.cuh).
__device__ __forceinline__ uint32 pack_half(float low, float high) {
  uint32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ uint16 float_to_half(float value) { return (uint16)pack_half(value, 0.0f); }

__device__ __forceinline__ float exp2_fast(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

__device__ __forceinline__ bool is_finite(float value) {
  return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u;
}

__device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xff800000u); }

// Butterfly: every lane ends with the same bits, because each step adds the same two numbers.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int mask = WARP / 2; mask > 0; mask /= 2) value += __shfl_xor_sync(ALL_LANES, value, mask);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int mask = WARP / 2; mask > 0; mask /= 2)
    value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, mask));
  return value;
}

// A persistent kernel has a multiprocessor's registers to itself: there more loads and products are kept in
// flight.
#ifdef PERSISTENT
constexpr bool ALONE_ON_SM = true;
#else
constexpr bool ALONE_ON_SM = false;
#endif

// Sum over a block of `WARPS` warps in warp order; `scratch` holds WARPS floats. One barrier inside, so
// `scratch` must not be written again before the next one.
template <int WARPS>
__device__ __forceinline__ float block_sum(float value, float* scratch) {
  value = warp_sum(value);
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int warp = 0; warp < WARPS; ++warp) sum += scratch[warp];
  return sum;
}

// Programmatic dependent launch (sm_90 and later; elsewhere the launch itself waits). Every kernel lets its
// successor start at once: the successor fills its shared memory with weights, which no kernel writes, and
// then waits until this kernel is complete and its writes are visible.
// A kernel may touch before wait_for_predecessor only what was written before this graph was launched.
__device__ __forceinline__ void let_successor_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ uint32 shared_address(const void* pointer) {
  return (uint32)__cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ void copy16_async(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global)
               : "memory");
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int LEFT>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
