// SPDX-License-Identifier: Apache-2.0
// Integers in a 32-bit word become bfloat16 or float16 pairs, exactly: their bits are put behind a fixed
// exponent, and what that adds is subtracted.
#pragma once
#include "common.cuh"

// One instruction each. Left to the compiler they are two: it takes both constants for immediates, of which
// an instruction has one.
__device__ __forceinline__ uint32 and_or(uint32 a, uint32 mask, uint32 bits) {
  uint32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
  return d;
}

__device__ __forceinline__ uint32 and_xor(uint32 a, uint32 mask, uint32 bits) {
  uint32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
  return d;
}

// Exact where the result is representable, as it is in all uses below.
__device__ __forceinline__ uint32 fma_bf16(uint32 a, uint32 b, uint32 c) {
  uint32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

__device__ __forceinline__ uint32 fma_half(uint32 a, uint32 b, uint32 c) {
  uint32 d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// Bytes 0 and 2 of a word of int8 as bfloat16: the low seven bits behind the exponent of 128 are 128 + m, and
// the sign bit, in the place of the lowest exponent bit, makes the subtrahend 128 or 256.
__device__ __forceinline__ uint32 int8_to_bf16(uint32 word) {
  constexpr uint32 ONE = 0x3f803f80u;
  return fma_bf16(and_or(word, 0x007f007fu, 0x43004300u), ONE, and_or(word, 0x00800080u, 0xc300c300u));
}

// The same as float16: 1024 + 128 + q, less 1152.
__device__ __forceinline__ uint32 int8_to_half(uint32 word) {
  constexpr uint32 ONE = 0x3c003c00u;
  return fma_half(and_xor(word, 0x00ff00ffu, 0x64806480u), ONE, 0xe480e480u);
}

// Bits 0 to 3 of both halves of a word as bfloat16: 128 + 8 + q, less 136.
__device__ __forceinline__ uint32 int4_to_bf16(uint32 word) {
  constexpr uint32 ONE = 0x3f803f80u;
  return fma_bf16(and_xor(word, 0x000f000fu, 0x43084308u), ONE, 0xc308c308u);
}

// The same as float16: 1024 + 8 + q, less 1032.
__device__ __forceinline__ uint32 int4_to_half(uint32 word) {
  constexpr uint32 ONE = 0x3c003c00u;
  return fma_half(and_xor(word, 0x000f000fu, 0x64086408u), ONE, 0xe408e408u);
}

// Bits 4 to 7: (1024 + 16 * (8 + q)) / 16, less 72. Float16 has the bits for it, bfloat16 has not.
__device__ __forceinline__ uint32 high_int4_to_half(uint32 word) {
  constexpr uint32 SIXTEENTH = 0x2c002c00u;
  return fma_half(and_xor(word, 0x00f000f0u, 0x64806480u), SIXTEENTH, 0xd480d480u);
}
