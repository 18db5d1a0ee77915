// SPDX-License-Identifier: Apache-2.0
// residual_rms_norm: add a projection's partial sums to the residual stream and normalise it, for passes of
// several tokens.
// (A decode step does the same inside the next projection: residual.cuh.)
//
//   operand             token operand of HIDDEN k (token_rows.cuh)
//   residual_out  f32   [TOKENS][HIDDEN]
//   residual      f32   [TOKENS][HIDDEN], partials [split_k][TOKENS][HIDDEN]
//   weight        f32   [HIDDEN]
//
// Block = one token; a thread holds the same pairs of the row throughout.
#include "residual.cuh"
#include "token_rows.cuh"

constexpr int NORM_THREADS = 256;

extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    residual_rms_norm(uint32* operand, float* residual_out, Residual residual, const float* weight) {
  __shared__ float scratch[NORM_THREADS / WARP];
  using Row = ResidualRow<NORM_THREADS>;
  let_successor_start();
  Row gain, row;
  gain.load(weight);
  wait_for_predecessor();
  const int token = blockIdx.x;
  row.load(residual, token);
  row.store(residual_out + token * HIDDEN);
  const float scale = row.inverse_rms(scratch);
#pragma unroll
  for (int i = 0; i < Row::MINE; ++i) {
    if (!Row::inside(i)) continue;
    store_operand(operand, token, 2 * Row::pair(i), row.value[i].x * scale * gain.value[i].x,
                  row.value[i].y * scale * gain.value[i].y);
  }
}
