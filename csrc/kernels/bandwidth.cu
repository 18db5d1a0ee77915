// SPDX-License-Identifier: Apache-2.0
// stream_read: the yardstick of the benchmark, how fast this device reads memory once, front to back.
// Every warp keeps its own ring of copies in flight, as the projections do, and multiplies nothing.
#define TOKENS 1
#define WEIGHT_BITS 16
#define STAGE_TILES 6
#define STAGES 4
#include "weight_stream.cuh"

constexpr int READ_WARPS = 8;

//   sink   u32   [1], never written in practice; it keeps the loads alive
//   tiles  [row tile][k_tiles] of 512 bytes
extern "C" __global__ void __launch_bounds__(READ_WARPS* WARP)
    stream_read(uint32* sink, const Vec4* tiles, int row_tiles, int k_tiles) {
  extern __shared__ __align__(128) char shared[];
  const int warp = threadIdx.x / WARP;
  const int begin = k_tiles * warp / READ_WARPS, end = k_tiles * (warp + 1) / READ_WARPS;
  WeightStream stream((Vec4*)(shared + warp * WeightStream::BYTES), tiles, k_tiles, {begin, end - begin},
                      blockIdx.x, gridDim.x, row_tiles);
  stream.fill();
  uint32 all = 0;
  for (int tile = blockIdx.x; tile < row_tiles; tile += gridDim.x) {
    for (int left = end - begin; left > 0; left -= STAGE_TILES) {
      const Vec4* stage = stream.wait();
      for (int i = 0; i < min(left, STAGE_TILES); ++i) all ^= stage[i * WARP].x;
      stream.advance();
    }
  }
  if (all == 0x9E3779B9u) *sink = all;
}
