# SPDX-License-Identifier: Apache-2.0
"""Memory from outside: of a process that is known to take some, and of devices by a library that is known."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from vla_edge_ros.bench.process_memory import resident_mb
from vla_edge_ros.bench.run.device_memory import DeviceMemory
from vla_edge_ros.bench.run.sampler import DEVICE, MEMORY_FILE, MemorySampler, read_samples
from vla_edge_ros.errors import SourceError

NVML = r"""
typedef struct { unsigned long long total, free, used; } memory;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **d) { *d = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetMemoryInfo(void *d, memory *m) {
    m->total = 1ull << 37; m->used = (unsigned long long)(long)d << 30; m->free = m->total - m->used;
    return FAIL;
}
"""


def library(folder, fail: int) -> str:
    """The driver's library as its header declares it, with devices that use 1 and 2 GiB."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (folder / "nvml.c").write_text(NVML.replace("FAIL", str(fail)))
    path = folder / f"libnvml{fail}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, folder / "nvml.c"], check=True)
    return str(path)


def test_devices_add_up(tmp_path):
    device = DeviceMemory(library(tmp_path, 0))
    assert device.count == 2 and device.used_mb() == 3 * 1024


def test_a_driver_that_fails_gives_no_number(tmp_path):
    assert DeviceMemory(library(tmp_path, 999)).used_mb() is None


def test_without_a_driver_there_is_no_device():
    device = DeviceMemory("libnothing-of-this-name.so")
    assert device.count == 0 and device.used_mb() is None


def test_a_process_that_takes_memory_is_seen_to_and_one_that_ended_is_left_out(tmp_path, wait_until):
    hog = subprocess.Popen(
        [sys.executable, "-c", "x = bytearray(b'1') * (200 << 20); print(flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    hog.stdout.readline()
    sampler = MemorySampler(tmp_path, {"hog": hog.pid}, DeviceMemory("none"))
    sampler.start()
    wait_until(lambda: len(read_samples(tmp_path / MEMORY_FILE)) > 2)
    hog.communicate(b"\n")
    count = len(read_samples(tmp_path / MEMORY_FILE))
    sampler.sample()
    sampler.stop()
    samples = read_samples(tmp_path / MEMORY_FILE)
    assert {sample.name for sample in samples} == {"hog"}
    assert 200 < max(sample.mb for sample in samples) < 280
    assert len(samples) <= count + 1  # one may have been taken as it ended
    times = [sample.at_s for sample in samples]
    assert times == sorted(times) and times[0] < 60


def test_a_process_s_memory_is_its_own():
    assert resident_mb() > 10
    with pytest.raises(OSError):
        resident_mb(2**22 + 1)


def test_a_half_written_line_is_left_out_and_a_strange_one_named(tmp_path):
    path = tmp_path / MEMORY_FILE
    assert read_samples(path) == []
    path.write_text("at_s,name,mb\n0.1,device,5.0\n0.2,dev")
    assert [(sample.name, sample.mb) for sample in read_samples(path)] == [(DEVICE, 5.0)]
    path.write_text("at_s,name,mb\n0.1,device\n")
    with pytest.raises(SourceError, match="expected rows of at_s, name, mb"):
        read_samples(path)
