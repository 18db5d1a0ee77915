# SPDX-License-Identifier: Apache-2.0
"""What every test shares: an isolated ROS graph, the real clips and bags, skips that say why."""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No example is timed: a busy machine is not a fault.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Before any rclpy.init, and inherited by the processes that tests start: this run's own graph, on this
# machine only. 1 to 100: the domains whose ports stay below Linux's ephemeral range.
os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

REPOSITORY = Path(__file__).resolve().parent.parent
WAIT_S = 90.0  # for what comes in milliseconds on a machine that is not busy


@functools.cache
def missing_cuda() -> str:
    """Why no CUDA device can be used; empty where one answers."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    import cupy

    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no CUDA device: {error}"
    return "" if devices else "no CUDA device"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What waited for another process in vain is tried once more, and reported as rerun.

    In two of four whole runs one of a hundred processes was not discovered within 30 s; which of the
    middleware's timers it missed is not known. Anything but such a wait fails at once.
    """
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if item.get_closest_marker("ros"):
                item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=["in vain"]))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("ros") and importlib.util.find_spec("rclpy") is None:
        pytest.skip("rclpy is not installed")
    if item.get_closest_marker("gpu") and missing_cuda():
        pytest.skip(missing_cuda())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test gives the main thread back under the scheduling policy that it found.

    SVT-AV1, a video encoder, puts the thread that calls it under SCHED_FIFO where it may. A main thread
    of the highest priority then starves the middleware's threads, and a later test waits for them for ever.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        return (yield)
    finally:
        changed = os.sched_getscheduler(0)
        if changed != policy:
            os.sched_setscheduler(0, policy, parameters)
            pytest.fail(f"the test left scheduling policy {changed} behind, it found {policy}")


@pytest.fixture(scope="session")
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Polls a condition that another thread makes true; the test fails after ``WAIT_S``."""

    def wait(condition: Callable[[], object]) -> None:
        end_s = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end_s, f"waited {WAIT_S:g} s in vain"
            threading.Event().wait(0.001)

    return wait


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with ``clips/`` and ``bags/``: ``$VLA_EDGE_DATA``, else beside the repository."""
    folder = Path(os.environ.get("VLA_EDGE_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no test data: {folder} is not a folder (set VLA_EDGE_DATA)")
    return folder


@pytest.fixture(scope="session")
def ros_context() -> Iterator[None]:
    """rclpy started once for the whole run; the signal handlers stay pytest's."""
    rclpy = pytest.importorskip("rclpy")
    from rclpy.signals import SignalHandlerOptions

    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    yield
    rclpy.try_shutdown()
