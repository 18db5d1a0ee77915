// SPDX-License-Identifier: Apache-2.0
// Grid barriers: how the blocks of one persistent kernel wait for each other. A counter each, in global memory.
//
// A block arrives with a release, and one thread of a waiting block polls with an acquire; the block's own
// barriers carry the order to its other threads. Counters only grow within a launch; the last block to leave
// sets them back, so a captured launch needs no other. All blocks must be resident (cooperative launch).
// A wait times out after MOST_POLLS: the block cancels the launch, the others see it and return too, and the host
// reads which barrier it was. (Polls, not time: a device that is shared with others may stand still.) A stop that
// the host asks for cancels the launch in the same way.
#pragma once
#include "common.cuh"

constexpr int BARRIER_QKV = 0, BARRIER_ATTENTION = 1, BARRIER_OUTPUT = 2, BARRIER_GATE_UP = 3, BARRIER_DOWN = 4, BARRIERS = 5;
constexpr int STOPPED = BARRIERS;  // by the host, in place of a barrier
constexpr uint32 POLLS_BETWEEN_LOOKS = 256;  // at whether others have cancelled

struct GridBarriers {
  struct alignas(128) Counter {
    uint32 value;
  };
  Counter arrived[BARRIERS], left, cancelled;  // cancelled: 1 + the barrier that timed out
};

__device__ __forceinline__ void add_release(uint32* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

__device__ __forceinline__ uint32 load_acquire(const uint32* counter) {
  uint32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

__device__ __forceinline__ void cancel(GridBarriers* barriers, int barrier) {
  atomicCAS(&barriers->cancelled.value, 0u, 1u + barrier);
}

// By one thread. False: cancelled, here or elsewhere.
__device__ __forceinline__ bool wait_at_barrier(GridBarriers* barriers, int barrier, uint32 arrivals) {
  const uint32* counter = &barriers->arrived[barrier].value;
  for (uint32 polls = 1; load_acquire(counter) < arrivals; ++polls) {
    if (polls % POLLS_BETWEEN_LOOKS == 0 && load_acquire(&barriers->cancelled.value) != 0) return false;
    if (polls == MOST_POLLS) {
      cancel(barriers, barrier);
      return false;
    }
  }
  return true;
}

// By one thread of each block, when the block waits no more. `host_cancelled` keeps its value if none timed out.
__device__ __forceinline__ void leave_barriers(GridBarriers* barriers, int* host_cancelled) {
  __threadfence();
  if (atomicAdd(&barriers->left.value, 1u) != gridDim.x - 1) return;
  const uint32 cancelled = atomicExch(&barriers->cancelled.value, 0u);
  if (cancelled != 0) *host_cancelled = (int)cancelled;
  for (int barrier = 0; barrier < BARRIERS; ++barrier) atomicExch(&barriers->arrived[barrier].value, 0u);
  atomicExch(&barriers->left.value, 0u);
}
