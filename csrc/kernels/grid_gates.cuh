// SPDX-License-Identifier: Apache-2.0
// How the blocks of one persistent kernel wait for each other: a counter a gate, in global memory.
//
// A block arrives with a release, and one thread of a waiting block polls with an acquire; the block's own
// barriers carry the order to its other threads. Counters only grow within a launch; the last block to leave
// sets them back, so a captured launch needs no other. All blocks must be resident (cooperative launch).
// A wait ends after MOST_POLLS at the latest: the block gives up, the others see it and give up too, and the
// host reads which gate it was. (Polls, not time: a device that is shared with others may stand still.) The
// same happens when the host asks for a stop.
#pragma once
#include "common.cuh"

constexpr int GATE_QKV = 0, GATE_ATTENTION = 1, GATE_OUTPUT = 2, GATE_GATE_UP = 3, GATE_DOWN = 4, GATES = 5;
constexpr int STOPPED = GATES;  // by the host, in place of a gate
constexpr uint32 POLLS_BETWEEN_LOOKS = 256;  // at what others gave up

struct GridGates {
  struct alignas(128) Counter {
    uint32 value;
  };
  Counter arrived[GATES], left, given_up;  // given_up: 1 + the gate
};

__device__ __forceinline__ void add_release(uint32* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

__device__ __forceinline__ uint32 load_acquire(const uint32* counter) {
  uint32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

__device__ __forceinline__ void give_up(GridGates* gates, int gate) {
  atomicCAS(&gates->given_up.value, 0u, 1u + gate);
}

// By one thread. False: given up, here or elsewhere.
__device__ __forceinline__ bool wait_at_gate(GridGates* gates, int gate, uint32 arrivals) {
  const uint32* counter = &gates->arrived[gate].value;
  for (uint32 polls = 1; load_acquire(counter) < arrivals; ++polls) {
    if (polls % POLLS_BETWEEN_LOOKS == 0 && load_acquire(&gates->given_up.value) != 0) return false;
    if (polls == MOST_POLLS) {
      give_up(gates, gate);
      return false;
    }
  }
  return true;
}

// By one thread of each block, when the block waits no more. `gate_given_up` keeps what it has if none was.
__device__ __forceinline__ void leave_gates(GridGates* gates, int* gate_given_up) {
  __threadfence();
  if (atomicAdd(&gates->left.value, 1u) != gridDim.x - 1) return;
  const uint32 given_up = atomicExch(&gates->given_up.value, 0u);
  if (given_up != 0) *gate_given_up = (int)given_up;
  for (int gate = 0; gate < GATES; ++gate) atomicExch(&gates->arrived[gate].value, 0u);
  atomicExch(&gates->left.value, 0u);
}
