// SPDX-License-Identifier: Apache-2.0
// gate_up_swiglu: RMSNorm (decode), gate and up projection, silu(gate) * up.
//
//   activated     decode: bf16 [INTERMEDIATE] and its rests; else token operand of INTERMEDIATE k,
//                 activated_scale times the product (token_rows.cuh)
//   residual_out  f32   [HIDDEN] (decode)
//   operand             token operand of HIDDEN k (several tokens)
//   weights             tiles of [2 * INTERMEDIATE rows][HIDDEN]; a row tile holds 8 gate rows and below them
//                       the 8 up rows of the same neurons, so that one thread finishes both
//
// INTERMEDIATE is padded to a multiple of 16 with rows of zeros: silu(0) * 0 = 0.
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
  const TokenOperand tokens = gemm.copy_operand(shared + GEMM_BYTES, operand, HIDDEN);
#endif
  gemm.multiply(tokens, [&](int row_tile, int row, int token, float gate, float up) {
    const int neuron = row_tile * 8 + row;
    const float value = gate / (1.0f + __expf(-gate)) * up;
    uint16* at = activated + (TOKENS == 1 ? neuron : operand_offset(token, neuron));
    if (token < FRAME_TOKENS) {
      at[0] = float_to_half(activated_scale(token) * value);
    } else {
      uint32 rest;
      at[0] = (uint16)split_bf16(value, 0.0f, rest);
      at[TOKENS == 1 ? INTERMEDIATE : REST_OFFSET] = (uint16)rest;
    }
  });
}
