// SPDX-License-Identifier: Apache-2.0
// How a projection gets the vectors it multiplies: normalised from the residual stream in a decode step, read
// in operand order in a prefill, where a kernel of its own has normalised all tokens once.
#pragma once
#include "residual.cuh"
#include "skinny_gemm.cuh"

#ifndef OPERAND_IN_SHARED
#define OPERAND_IN_SHARED 1
#endif

// Decode: sum the residual, keep it (block 0), normalise it into `shared_row`, bfloat16 [HIDDEN].
__device__ __forceinline__ TokenOperand normalise_residual(uint32* shared_row, const Residual& residual,
                                                           const ResidualRow<GEMM_THREADS>& gain,
                                                           float* residual_out, float* inverse_rms = nullptr,
                                                           int token = 0) {
  __shared__ float scratch[GEMM_WARPS];
  using Row = ResidualRow<GEMM_THREADS>;
  Row row;
  row.load(residual, token);
  const float scale = row.inverse_rms(scratch);
#pragma unroll
  for (int i = 0; i < Row::MINE; ++i) {
    if (!Row::inside(i)) continue;
    shared_row[Row::pair(i)] =
        pack_bf16(row.value[i].x * scale * gain.value[i].x, row.value[i].y * scale * gain.value[i].y);
  }
  if (residual_out && blockIdx.x == 0 && blockIdx.y == 0) row.store(residual_out);
  if (inverse_rms) *inverse_rms = scale;
  __syncthreads();
  return {shared_row};
}

// Copy k `first_k` to `first_k` + `k_count` of the operand into shared memory, where it fits; a chip with
// little shared memory reads it through its L2 instead.
__device__ __forceinline__ TokenOperand copy_operand(uint32* shared_operand, const uint32* operand, int first_k,
                                                     int k_count) {
  const int vecs_a_tile = (TOKENS == 1 ? TILE_K * 2 : TILE_K * TOKENS * 2) / 16;
  const Vec4* from = (const Vec4*)operand + first_k / TILE_K * vecs_a_tile;
  if (!OPERAND_IN_SHARED) return {(const uint32*)from};
  const int vecs = k_count / TILE_K * vecs_a_tile;
  for (int i = threadIdx.x; i < vecs; i += GEMM_THREADS) copy16_async((Vec4*)shared_operand + i, from + i);
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  return {shared_operand};
}
