# SPDX-License-Identifier: Apache-2.0
"""Which kind of decode step runs, queued or not, and what happens when it cannot: without a device."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cupy")

from vla_edge_ros.engines.cuda.plan.chunk_state import state_dtype
from vla_edge_ros.engines.cuda.plan.grid_barrier import BARRIERS, STOPPED
from vla_edge_ros.engines.cuda.run import decode_steps
from vla_edge_ros.engines.cuda.run.decode_steps import DecodeSteps
from vla_edge_ros.errors import EngineError

MS = {"kernels": 2.0, "persistent": 1.0}


class Device:
    """What stands in for graphs, queues and page-locked memory; ``log`` is what was asked of them."""

    def __init__(self, monkeypatch, milliseconds):
        self.log, self.fails, self.milliseconds = [], {}, milliseconds
        device = self

        class Graph:
            def __init__(self, stream, launches):
                launches()
                self.kind = device.captured

            def run(self):
                device.log.append(self.kind)
                if self.kind in device.fails:
                    device.fails[self.kind]()
                return device.milliseconds[self.kind]

        class Queue:
            def __init__(self, stream, graph, most):
                self.graph = graph

            def launch(self, count):
                device.log.append(f"queue {count}")

            def wait(self, index):
                device.log.append(f"wait {index}")
                if self.graph.kind in device.fails:
                    device.fails[self.graph.kind]()
                return device.milliseconds[self.graph.kind]

        monkeypatch.setattr(decode_steps, "TimedGraph", Graph)
        monkeypatch.setattr(decode_steps, "ReplayQueue", Queue)
        monkeypatch.setattr(decode_steps, "pinned_array", lambda shape, dtype: np.zeros(shape, dtype))
        monkeypatch.setattr(decode_steps, "copy_to_device", lambda *_: None)

    def launch(self, *_):
        self.captured = "kernels"

    def launch_persistent(self, *_):
        self.captured = "persistent"


@pytest.fixture
def device(monkeypatch):
    return Device(monkeypatch, dict(MS))


PLANNED = SimpleNamespace()


def steps_on(device, persistent=PLANNED):
    sizes = SimpleNamespace(pages=4, page_slots=16, persistent=persistent)
    memory = {"next_token": 1 << 20, "decode_state": 2 << 20}
    return DecodeSteps(SimpleNamespace(ptr=1), device, memory, sizes)


STATE = np.zeros(1, state_dtype(4))


@pytest.mark.parametrize(
    ("wanted", "milliseconds", "kind"),
    [
        ("auto", MS, "persistent"),
        ("auto", {"kernels": 1.0, "persistent": 2.0}, "kernels"),
        ("persistent", {"kernels": 1.0, "persistent": 2.0}, "persistent"),
        ("kernels", MS, "kernels"),
    ],
)
def test_auto_takes_the_faster_and_a_wish_is_granted(device, wanted, milliseconds, kind):
    device.milliseconds.update(milliseconds)
    steps = steps_on(device)
    steps.choose(wanted, STATE)
    assert steps.kind == kind


def test_without_a_plan_for_one_kernel_there_is_nothing_to_compare(device):
    steps = steps_on(device, persistent=None)
    steps.choose("auto", STATE)
    assert steps.kind == "kernels" and device.log == ["kernels"]


def test_persistent_steps_are_queued_at_the_first_and_then_only_waited_for(device):
    steps = steps_on(device)
    steps.use("persistent")
    steps.stop_asked[0] = 1
    assert [steps.run(index, 3) for index in range(3)] == [1.0] * 3
    assert device.log == ["queue 3", "wait 0", "wait 1", "wait 2"] and steps.stop_asked[0] == 0


def test_graphs_of_kernels_run_one_by_one_since_nothing_stops_them(device):
    steps = steps_on(device)
    steps.use("kernels")
    assert [steps.run(index, 2) for index in range(2)] == [2.0] * 2
    assert device.log == ["kernels", "kernels"]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_stop_is_for_the_steps_of_its_chunk(device, ahead):
    steps = steps_on(device)
    steps.use("persistent", ahead)
    steps.run(0, 2)
    steps.stop()
    steps.run(0, 2)
    assert steps.stop_asked[0] == 0


def test_a_stopped_kernel_is_no_error(device):
    steps = steps_on(device)
    steps.use("persistent")
    steps.run(0, 2)
    steps.stop()
    steps.cancelled[0] = STOPPED
    assert steps.stop_asked[0] == 1
    assert steps.run(1, 2) == 1.0


def test_a_barrier_timeout_names_it_and_the_next_steps_are_graphs_of_kernels(device):
    steps = steps_on(device)
    steps.use("persistent")

    def time_out():
        steps.cancelled[0] = 1 + BARRIERS.index("output")

    device.fails["persistent"] = time_out
    with pytest.raises(EngineError, match="at the grid barrier output after"):
        steps.run(0, 2)
    assert steps.kind == "kernels" and steps.run(0, 2) == 2.0


def refuse():
    raise EngineError("launch of decode_layers failed: too many blocks in cooperative launch")


def test_a_device_that_refuses_the_kernel_is_said_and_has_graphs_of_kernels(device, caplog):
    steps = steps_on(device)
    device.fails["persistent"] = refuse
    steps.choose("auto", STATE)
    assert steps.kind == "kernels" and set(steps.kinds) == {"kernels"}
    assert "too many blocks" in caplog.text


def test_where_it_was_asked_for_a_refusal_is_an_error(device):
    steps = steps_on(device)
    device.fails["persistent"] = refuse
    with pytest.raises(EngineError, match="too many blocks"):
        steps.choose("persistent", STATE)


def test_an_unknown_kind_is_refused(device):
    with pytest.raises(EngineError, match=r"expected one of \['kernels', 'persistent'\], got fast"):
        steps_on(device).use("fast")
