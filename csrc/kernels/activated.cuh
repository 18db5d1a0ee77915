// SPDX-License-Identifier: Apache-2.0
// silu(gate) * up as the down projection multiplies it.
//
//   activated  decode: bf16 [INTERMEDIATE] and its rests; else token operand of INTERMEDIATE k,
//              activated_scale times the product (token_rows.cuh)
#pragma once
#include "token_rows.cuh"

__device__ __forceinline__ void store_activated(uint16* activated, int neuron, int token, float gate,
                                                float up) {
  const float value = gate / (1.0f + __expf(-gate)) * up;
  uint16* at = activated + (TOKENS == 1 ? neuron : operand_offset(token, neuron));
  if (token < FRAME_TOKENS) {
    at[0] = float_to_half(activated_scale(token) * value);
  } else {
    uint32 rest;
    at[0] = (uint16)split_bf16(value, 0.0f, rest);
    at[TOKENS == 1 ? INTERMEDIATE : REST_OFFSET] = (uint16)rest;
  }
}
