# SPDX-License-Identifier: Apache-2.0
"""What a device says of itself, and graphs that copy, replay and time."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.gpu


def test_a_device_names_its_limits():
    from vla_edge_ros.engines.cuda.load.device import current_device

    device = current_device()
    assert device.architecture >= 50 and device.multiprocessors > 0
    assert 48 << 10 <= device.shared_bytes <= device.shared_bytes_sm


def test_a_graph_reads_what_its_source_holds_at_each_replay():
    import cupy

    from vla_edge_ros.engines.cuda.load.memory import pinned_array
    from vla_edge_ros.engines.cuda.run.graphs import TimedGraph

    stream = cupy.cuda.Stream(non_blocking=True)
    source = pinned_array((1000,), np.float32)
    copied, result = cupy.zeros(1000, np.float32), cupy.zeros(1000, np.float32)
    cupy.cuda.runtime.deviceSynchronize()

    def work():
        kind = cupy.cuda.runtime.memcpyDeviceToDevice
        cupy.cuda.runtime.memcpyAsync(result.data.ptr, copied.data.ptr, copied.nbytes, kind, stream.ptr)

    graph = TimedGraph(stream, work, (copied.data.ptr, source))
    for value in (1.0, 2.0):
        source.fill(value)
        assert graph.run() > 0
        assert (result.get() == value).all()


SPIN = r"""
extern "C" __global__ void spin(unsigned long long ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}
"""


def test_the_time_is_that_of_the_work_and_not_of_its_launch():
    """Fault A19: the device is busy for 20 ms, a launch takes microseconds."""
    import cupy

    from vla_edge_ros.engines.cuda.run.graphs import TimedGraph

    stream = cupy.cuda.Stream(non_blocking=True)
    spin = cupy.RawKernel(SPIN, "spin")
    spin((1,), (1,), (np.uint64(1),))  # compiled before the capture

    def work():
        with stream:
            spin((1,), (1,), (np.uint64(20_000_000),))

    assert TimedGraph(stream, work).run() > 19.0
