// SPDX-License-Identifier: Apache-2.0
// count_threads: whether this machine compiles a kernel, loads it and runs it. Nothing else uses it.
//
//   counts  i32  [threads], page-locked host memory
#include "common.cuh"

extern "C" __global__ void count_threads(int* counts, int first) { counts[threadIdx.x] = first + (int)threadIdx.x; }
