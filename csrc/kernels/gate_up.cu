// SPDX-License-Identifier: Apache-2.0
// gate_up_swiglu: RMSNorm (decode), gate and up projection, silu(gate) * up.
//
//   activated           as activated.cuh says
//   residual_out  f32   [HIDDEN] (decode)
//   operand             token operand of HIDDEN k (several tokens)
//   weights             tiles of [2 * INTERMEDIATE rows][HIDDEN]; a row tile holds 8 gate rows and below them
//                       the 8 up rows of the same neurons, so that one thread finishes both
//
// INTERMEDIATE is padded to a multiple of 16 with rows of zeros: silu(0) * 0 = 0.
#include "activated.cuh"
#include "token_operand.cuh"

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    gate_up_swiglu(uint16* activated, float* residual_out, Residual residual, const uint32* operand,
                   const float* norm_weight, const Vec4* weights) {
  extern __shared__ __align__(128) char shared[];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, 2 * INTERMEDIATE / TILE_ROWS, HIDDEN / TILE_K, 0, 1);
#if TOKENS == 1
  ResidualRow<GEMM_THREADS> gain;
  gain.load(norm_weight);
  wait_for_predecessor();
  const TokenOperand tokens =
      normalise_residual((uint32*)(shared + GEMM_BYTES), residual, gain, residual_out);
#else
  wait_for_predecessor();
  const auto tokens = gemm.take_operand(shared + GEMM_BYTES, operand, HIDDEN);
#endif
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float gate, float up) {
    store_activated(activated, row_tile * 8 + row, token, gate, up);
  });
}
