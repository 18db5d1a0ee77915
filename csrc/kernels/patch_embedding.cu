// SPDX-License-Identifier: Apache-2.0
// patch_operand: a frame's square patches as token operand. patch_projection: the patches' tokens.
// pool_tokens: their mean.
//
//   operand  f16   token operand of PATCH_VALUES k; PATCH_VALUES = PATCH_SIZE^2 * 3 rounded up to 16
//   pixels   u8    [FRAME_HEIGHT][FRAME_WIDTH][3]
//   tokens   f32   [TOKENS][HIDDEN]
//   weights  bf16  tiles of [HIDDEN rows][PATCH_VALUES]
//   pooled   f32   [HIDDEN], page-locked host memory
//
// A channel value p enters as p / 127.5 - 1 = (2 p - 255) / 255. The numerator is an odd integer below 256,
// so float16 holds it exactly; the division follows the sum.
#include "skinny_gemm.cuh"

constexpr int PATCHES_ACROSS = FRAME_WIDTH / PATCH_SIZE;
constexpr int PATCHES = PATCHES_ACROSS * (FRAME_HEIGHT / PATCH_SIZE);
constexpr int PATCH_THREADS = 256;

// Block = one patch, from `first` on; a thread takes every 256th value of it.
extern "C" __global__ void __launch_bounds__(PATCH_THREADS)
    patch_operand(uint16* operand, const uint8* pixels, int first) {
  let_successor_start();
  wait_for_predecessor();
  const int patch = first + blockIdx.x;
  const int top = patch / PATCHES_ACROSS * PATCH_SIZE, left = patch % PATCHES_ACROSS * PATCH_SIZE;
  for (int k = threadIdx.x; k < PATCH_VALUES; k += PATCH_THREADS) {
    const int y = k / (PATCH_SIZE * 3), x = k % (PATCH_SIZE * 3);
    const bool inside = y < PATCH_SIZE && patch < PATCHES;
    const int value = inside ? 2 * pixels[((top + y) * FRAME_WIDTH + left) * 3 + x] - 255 : 0;
    operand[operand_offset(blockIdx.x, k)] = float_to_half((float)value);
  }
}

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, GEMM_BLOCKS)
    patch_projection(float* tokens, const uint32* operand, const Vec4* weights) {
  extern __shared__ __align__(128) char shared[];
  let_successor_start();
  SkinnyGemm gemm(shared, weights, HIDDEN / TILE_ROWS, PATCH_VALUES / TILE_K, 0, 1);
  wait_for_predecessor();
  const auto patches = gemm.take_operand(shared + GEMM_BYTES, operand, PATCH_VALUES);
  gemm.multiply(patches, [&](int row_tile, int row, int token, float low, float high) {
    float* at = tokens + token * HIDDEN + row_tile * TILE_ROWS + row;
    at[0] = low / 255.0f;
    at[8] = high / 255.0f;
  });
}

// Thread = one element of the mean, patches added in order.
extern "C" __global__ void __launch_bounds__(PATCH_THREADS) pool_tokens(float* pooled, const float* tokens) {
  let_successor_start();
  wait_for_predecessor();
  const int k = blockIdx.x * PATCH_THREADS + threadIdx.x;
  if (k >= HIDDEN) return;
  float sum = 0.0f;
  for (int patch = 0; patch < PATCHES; ++patch) sum += tokens[patch * HIDDEN + k];
  pooled[k] = sum / PATCHES;
}
