# SPDX-License-Identifier: Apache-2.0
"""Levels and keys of the six statuses, judged from plain values."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="diagnostic messages need rclpy's type support")

from diagnostic_msgs.msg import DiagnosticStatus  # noqa: E402

from vla_edge_ros.ros.diagnostics import REFUSALS, diagnose  # noqa: E402
from vla_edge_ros.ros.health import ActionHealth, CameraHealth, EngineHealth, RecentRate  # noqa: E402
from vla_edge_ros.runtime.metrics import RunMetrics  # noqa: E402
from vla_edge_ros.types import (  # noqa: E402
    Action,
    ActionSource,
    CycleRecord,
    Decision,
    MemoryReport,
    Outcome,
    Reason,
)

pytestmark = pytest.mark.ros

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
ACTION = Action(np.zeros(8), 1)
CAMERA = CameraHealth(topic="/vla/image", publishers=1, frames=60, rate_hz=60.0, silent_s=0.01)
ACTING = ActionHealth(state="active", is_active=True, topic="/vla/action", publishers=1)
ENGINE = EngineHealth(name="numpy", memory=MemoryReport({"weights": 1 << 20}, 1 << 20), ceiling_mb=8)


def run(*records: CycleRecord) -> RunMetrics:
    metrics = RunMetrics(33.0)
    for record in records:
        metrics.add(record, record.latency_ms)
    return metrics


def fresh(cycle: int = 1) -> CycleRecord:
    return CycleRecord(cycle, Outcome.ACTED, ActionSource.FRESH, ACTION, latency_ms=10.0)


def fallback(outcome: Outcome, source: ActionSource = ActionSource.REPEAT, **fields) -> CycleRecord:
    return CycleRecord(2, outcome, source, ACTION, **fields)


def statuses(camera=CAMERA, metrics=None, action=ACTING, engine=ENGINE) -> dict[str, DiagnosticStatus]:
    snapshot = (metrics or run(fresh())).snapshot()
    made = diagnose("vla_reasoner", 33.0, camera, snapshot, action, engine)
    return {status.name.removeprefix("vla_reasoner: "): status for status in made}


def test_all_is_ok_when_all_is_well():
    made = statuses()
    assert list(made) == ["Camera", "Deadline", "Admission", "KV cache", "Action", "GPU"]
    assert {status.level for status in made.values()} == {OK}
    assert {status.hardware_id for status in made.values()} == {"numpy"}


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({"silent_s": 1.1}, ERROR, "no usable image for 1.1 s on /vla/image"),
        ({"frames": 0, "silent_s": 99.0, "publishers": 2}, WARN, "waiting for image on /vla/image (2"),
        ({"mismatch": "RELIABILITY"}, WARN, "RELIABILITY"),
        ({"clock_missing": True}, WARN, "/clock"),
        ({"recent_refused": 3.0, "refused": {"step": 3}}, WARN, "step 3"),
        ({"recent_replaced": 1.0, "replaced_stamps": {"zero": 9}}, WARN, "zero 9"),
        ({"refused": {"step": 3}}, OK, "60.0 Hz"),
    ],
)
def test_camera_level(change, level, words):
    status = statuses(camera=replace(CAMERA, **change))["Camera"]
    assert status.level == level and words in status.message


def test_an_unconfigured_node_does_not_complain_about_its_camera():
    assert statuses(CameraHealth(), run(), ActionHealth(), EngineHealth())["Camera"].level == OK


@pytest.mark.parametrize(("missed", "level"), [(0, OK), (1, OK), (2, WARN)])
def test_deadline_warns_above_one_percent_of_the_window(missed, level):
    metrics = run(*[fresh()] * (100 - missed), *[fallback(Outcome.LATE)] * missed)
    assert statuses(metrics=metrics)["Deadline"].level == level


def test_admission_warns_while_it_refuses_and_says_by_how_much():
    refused = fallback(Outcome.REFUSED, decision=Decision(False, Reason.OVER_BUDGET, 1.0, 40.0, 31.0))
    status = statuses(metrics=run(fresh(), refused))["Admission"]
    assert status.level == WARN and "needs 40.0 ms, 30.0 ms are left" in status.message
    assert statuses(metrics=run(refused, fresh()))["Admission"].level == OK


@pytest.mark.parametrize(
    ("health", "records", "level", "words"),
    [
        ({"publishers": 2}, [fresh()], ERROR, "2 publishers on /vla/action"),
        ({"fault": "KeyError: 'x'"}, [fresh()], ERROR, "KeyError"),
        ({"is_active": False, "state": "inactive"}, [], OK, "inactive"),
        ({"mismatch": "DEADLINE"}, [fresh()], WARN, "DEADLINE"),
        ({}, [], WARN, "waiting for the first image"),
        ({}, [CycleRecord(1, Outcome.NO_FRAME_YET)], WARN, "waiting for the first image"),
        ({}, [fresh(), fallback(Outcome.LATE)], WARN, "50.0 %"),
        ({}, [fresh(), fallback(Outcome.STALE_FRAME, ActionSource.ZERO)], ERROR, "zero motion: stale_frame"),
        ({}, [fresh(), fallback(Outcome.ENGINE_ERROR, error="kernel 7")], ERROR, "kernel 7"),
    ],
)
def test_action_level(health, records, level, words):
    status = statuses(metrics=run(*records), action=replace(ACTING, **health))["Action"]
    assert status.level == level and words in status.message


def test_gpu_is_an_error_above_its_ceiling():
    over = replace(ENGINE, memory=MemoryReport({"weights": 9 << 20}, 9 << 20))
    assert statuses(engine=over)["GPU"].level == ERROR


def test_age_of_what_is_acted_on_and_holes_in_the_memory_are_told():
    """Faults A4 and A22."""
    metrics = RunMetrics(33.0)
    for cycle, stamp_ms in enumerate((100, 133, 433)):
        metrics.add(replace(fresh(cycle), frame_stamp_ns=stamp_ms * 1_000_000), 10.0, 20.0 + cycle)
    made = statuses(metrics=metrics)
    deadline, cache = (
        {pair.key: pair.value for pair in made[name].values} for name in ("Deadline", "KV cache")
    )
    assert (deadline["sensor_to_action_p50_ms"], deadline["sensor_to_action_max_ms"]) == ("21.000", "22.000")
    assert cache["longest_memory_gap_ms"] == "300.000"


def test_cycles_and_samples_that_count_for_nothing_are_told():
    metrics = RunMetrics(33.0, rejected_samples=lambda: 7)
    metrics.add(fresh(1), 10.0)
    metrics.count_overtaken()
    made = statuses(metrics=metrics)
    assert {pair.key: pair.value for pair in made["Admission"].values}["rejected_samples"] == "7"
    assert {pair.key: pair.value for pair in made["Deadline"].values}["overtaken_cycles"] == "1"


def test_keys_are_the_same_in_good_and_in_bad_times_and_values_are_single_numbers():
    good = statuses()
    camera = replace(CAMERA, silent_s=9.0, refused={reason: 1 for reason in REFUSALS})
    bad = statuses(camera, run(fallback(Outcome.ENGINE_ERROR)), replace(ACTING, publishers=3))
    empty = statuses(CameraHealth(), run(), ActionHealth(), EngineHealth())
    for name in good:
        keys = [pair.key for pair in good[name].values]
        assert len(keys) == len(set(keys))
        for other in (bad, empty):
            assert [pair.key for pair in other[name].values] == keys
            assert all(float(pair.value) is not None for pair in other[name].values if pair.key != "encoding")


def test_a_rate_is_of_the_last_second_only():
    rate = RecentRate()
    assert rate.update(0.0, 0) == 0.0
    assert rate.update(0.0, 5) == 0.0  # no time has passed
    for tick in range(1, 51):
        recent = rate.update(tick / 10, tick * 6)
    assert recent == pytest.approx(60.0)
    for tick in range(51, 61):
        recent = rate.update(tick / 10, 300)
    assert recent == pytest.approx(0.0)


def test_a_rate_starts_anew_when_its_counter_does():
    rate = RecentRate()
    rate.update(0.0, 100)
    assert rate.update(0.5, 3) == 0.0
