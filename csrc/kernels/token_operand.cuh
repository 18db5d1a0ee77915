// SPDX-License-Identifier: Apache-2.0
// How a decode step's projection gets the vector it multiplies: normalised from the residual stream. (In a
// prefill a kernel of its own normalises all tokens once: norm.cu.)
#pragma once
#include "residual.cuh"
#include "skinny_gemm.cuh"

// Decode: sum the residual, keep it (block 0), normalise it into `shared_row`, [HIDDEN] and
// [HIDDEN] of rests.
__device__ __forceinline__ TokenOperand normalise_residual(uint32* shared_row, const Residual& residual,
                                                           const ResidualRow<GEMM_THREADS>& gain,
                                                           float* residual_out, float* inverse_rms = nullptr,
                                                           int token = 0) {
  __shared__ float scratch[GEMM_WARPS];
  using Row = ResidualRow<GEMM_THREADS>;
  Row row;
  row.load(residual, token);
  const float scale = row.inverse_rms(scratch);
  row.split(shared_row, gain, scale);
  if (residual_out && blockIdx.x == 0 && blockIdx.y == 0) row.store(residual_out);
  if (inverse_rms) *inverse_rms = scale;
  __syncthreads();
  return {shared_row, HIDDEN / 2};
}
