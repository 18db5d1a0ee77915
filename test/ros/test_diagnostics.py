# SPDX-License-Identifier: Apache-2.0
"""Levels and keys of the six statuses, judged from plain values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="diagnostic messages need rclpy's type support")

from diagnostic_msgs.msg import DiagnosticStatus

from vla_edge_ros.config import TimingConfig
from vla_edge_ros.ros.camera_diagnostics import REFUSALS
from vla_edge_ros.ros.diagnostics import diagnose
from vla_edge_ros.ros.health import ActionHealth, CameraHealth, EngineHealth
from vla_edge_ros.ros.image_loss import Loss
from vla_edge_ros.ros.messages import to_status
from vla_edge_ros.runtime.metrics import RunMetrics
from vla_edge_ros.types import (
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
NODE = "/robot1/vla/vla_reasoner"
FAST_DDS = "rmw_fastrtps_cpp, FASTDDS_BUILTIN_TRANSPORTS=DEFAULT"
CAMERA = CameraHealth(
    topic="/vla/image",
    expected_type="sensor_msgs/msg/Image",
    publishers=1,
    publisher_names="/camera",
    frames=60,
    rate_hz=60.0,
    silent_s=0.01,
    age_ms=5.0,
    least_age_ms=4.0,
    most_age_ms=9.0,
    transport=FAST_DDS,
)


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
    made = diagnose(NODE, TimingConfig(), camera, snapshot, action, engine)
    return {status.name.removeprefix(f"{NODE}: "): status for status in made}


def test_a_model_that_is_not_to_be_trusted_is_a_warning_that_stays():
    made = statuses(engine=replace(ENGINE, caveats=("cannot see", "unused tensors")))["GPU"]
    assert (made.level, made.message) == (WARN, "cannot see; unused tensors")
    assert next(pair.value for pair in made.values if pair.key == "model_caveats") == "2"


def test_all_is_ok_when_all_is_well():
    made = statuses()
    assert list(made) == ["Camera", "Deadline", "Admission", "KV cache", "Action", "GPU"]
    assert {status.level for status in made.values()} == {OK}
    assert {status.hardware_id for status in made.values()} == {NODE}


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({"silent_s": 1.1}, ERROR, "no usable image for 1.1 s on /vla/image"),
        (
            {"silent_s": 1.1, "recent_refused": 9.0, "refused": {"encoding": 9}, "refusal": "got '32FC1'"},
            ERROR,
            "no usable image for 1.1 s on /vla/image: images refused (encoding 9): got '32FC1'",
        ),
        ({"frames": 0, "silent_s": 99.0, "publishers": 0}, WARN, "waiting for image on /vla/image (0 pub"),
        ({"frames": 0, "silent_s": 99.0}, WARN, "waiting for image on /vla/image (from /camera)"),
        (
            {"frames": 0, "publishers": 0, "strangers": "/lidar publishes sensor_msgs/msg/PointCloud2"},
            WARN,
            "/vla/image must carry sensor_msgs/msg/Image: /lidar publishes sensor_msgs/msg/PointCloud2",
        ),
        (
            {"publishers": 2, "publisher_names": "/left, /right"},
            WARN,
            "2 publishers on /vla/image, /left, /right",
        ),
        ({"kept_away": "/camera does not match in RELIABILITY"}, WARN, "/camera does not match in RELIAB"),
        ({"clock_missing": True}, WARN, "/clock"),
        ({"recent_refused": 3.0, "refused": {"step": 3}, "refusal": "step 1"}, WARN, "step 3): step 1"),
        ({"recent_replaced": 1.0, "replaced_stamps": {"zero": 9}}, WARN, "zero 9"),
        ({"refused": {"step": 3}}, OK, "60.0 Hz"),
        ({"loss": Loss(600, 29, "numbers")}, OK, "60.0 Hz"),
        ({"loss": Loss(10, 2, "numbers")}, OK, "60.0 Hz"),
        ({"loss": Loss(600, 420, "numbers"), "rate_hz": 18.0}, WARN, "70 % of 600 images did not arrive"),
        ({"loss": Loss(600, 420, "numbers")}, WARN, "FASTDDS_BUILTIN_TRANSPORTS=LARGE_DATA for"),
        ({"loss": Loss(600, 420, "numbers")}, WARN, FAST_DDS),
        ({"loss": Loss(600, 420, "numbers"), "busy_share": 0.9}, WARN, "busy converting them for 90 %"),
        (
            {"loss": Loss(600, 420, "numbers"), "transport": "rmw_fastrtps_cpp, X=LARGE_DATA?max=1"},
            WARN,
            "net.core.rmem_max",
        ),
        ({"loss": Loss(600, 420, "numbers"), "transport": "rmw_cyclonedds_cpp"}, WARN, "net.core.rmem_max"),
        ({"loss": Loss(600, 50, "stamps")}, OK, "60.0 Hz"),
        ({"loss": Loss(600, 90, "stamps")}, WARN, "by the gaps in their stamps"),
        ({"promised_hz": 60.0, "rate_hz": 18.0}, WARN, "promises 60.0 Hz"),
        ({"promised_hz": 60.0, "rate_hz": 55.0}, OK, "55.0 Hz"),
        ({"least_age_ms": 501.0, "most_age_ms": 520.0}, ERROR, "501 to 520 ms old when they come"),
        ({"least_age_ms": 501.0, "most_age_ms": 520.0}, ERROR, "synchronise"),
        ({"least_age_ms": 200.0, "most_age_ms": 900.0}, ERROR, "or images queue up"),
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
        ({"kept_away": "/arm does not match /vla/action in DEADLINE"}, [fresh()], WARN, "/arm does not"),
        ({}, [], WARN, "waiting for the first image"),
        ({}, [CycleRecord(1, Outcome.NO_FRAME_YET)], WARN, "waiting for the first image"),
        ({}, [CycleRecord(1, Outcome.STALE_FRAME)], WARN, "no action yet: the newest image is too old"),
        ({}, [CycleRecord(1, Outcome.REFUSED)], WARN, "no action yet: admission refused"),
        ({}, [CycleRecord(1, Outcome.ENGINE_ERROR, error="kernel 7")], ERROR, "kernel 7"),
        ({}, [fresh(), CycleRecord(2, Outcome.REFUSED)], WARN, "no action: admission refused"),
        ({}, [fresh(), fallback(Outcome.LATE)], WARN, "50.0 % of the last 2 cycles fell back: late 1"),
        ({}, [fresh(), fallback(Outcome.STALE_FRAME, ActionSource.ZERO)], ERROR, "zero motion: stale_frame"),
        ({}, [fresh(), fallback(Outcome.ENGINE_ERROR, error="kernel 7")], ERROR, "kernel 7"),
    ],
)
def test_action_level(health, records, level, words):
    status = statuses(metrics=run(*records), action=replace(ACTING, **health))["Action"]
    assert status.level == level and words in status.message


RESPONSIBLE = {
    Outcome.NO_FRAME_YET: "Camera",
    Outcome.NO_NEW_FRAME: "Camera",
    Outcome.STALE_FRAME: "Camera",
    Outcome.REFUSED: "Admission",
    Outcome.ABORTED: "Deadline",
    Outcome.LATE: "Deadline",
    Outcome.ENGINE_ERROR: "GPU",
}


FALLBACKS = (ActionSource.REPEAT, ActionSource.ZERO, ActionSource.NONE)


@pytest.mark.parametrize(
    ("outcome", "source"),
    [(Outcome.ACTED, ActionSource.FRESH), *((o, s) for o in RESPONSIBLE for s in FALLBACKS)],
    ids=lambda value: value.value,
)
def test_the_subjects_agree_with_the_status_of_the_cycle(outcome, source):
    """Action has the status's level, who is responsible is not OK, and nobody else complains."""
    decision = Decision(False, Reason.OVER_BUDGET, 1.0, 40.0, 31.0)
    action = None if source is ActionSource.NONE else ACTION
    record = CycleRecord(1, outcome, source, action, decision=decision, error="kernel 7")
    made = statuses(metrics=run(record))
    assert made["Action"].level == to_status(record, NODE, 5).status[0].level
    guilty = {name for name, status in made.items() if status.level != OK}
    assert guilty == ({"Action", RESPONSIBLE[outcome]} if outcome in RESPONSIBLE else set())


@pytest.mark.parametrize("outcome", RESPONSIBLE, ids=lambda outcome: outcome.value)
def test_what_ended_a_run_is_no_complaint_of_a_node_that_does_not_run(outcome):
    made = statuses(metrics=run(fallback(outcome)), action=replace(ACTING, is_active=False, state="inactive"))
    assert {status.level for status in made.values()} == {OK}


def test_an_outcome_of_some_of_the_last_cycles_is_told_by_who_is_responsible_for_it():
    """A slow camera or an engine that fails now and then must not flicker between two levels."""
    for outcome, words in (
        (Outcome.STALE_FRAME, "in 20 of the last 60 cycles the newest image was stale"),
        (Outcome.NO_NEW_FRAME, "in 20 of the last 60 cycles there was no new image"),
        (Outcome.ENGINE_ERROR, "20 of the last 60 cycles failed: kernel 7"),
    ):
        seldom = statuses(metrics=run(*[fallback(outcome, error="kernel 7")] * 20, *[fresh()] * 40))
        status = seldom[RESPONSIBLE[outcome]]
        assert status.level == WARN and words in status.message
        gone = statuses(metrics=run(*[fallback(outcome, error="kernel 7")] * 20, *[fresh()] * 60))
        assert gone[RESPONSIBLE[outcome]].level == OK
    beat = statuses(metrics=run(*[fallback(Outcome.NO_NEW_FRAME)] * 5, *[fresh()] * 95))
    assert beat["Camera"].level == OK  # a 30 Hz camera beside cycles of 33 ms


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
            texts = ("encoding", "topic", "type", "loss_known_by")
            assert all(float(pair.value) is not None for pair in other[name].values if pair.key not in texts)


def test_an_age_between_two_clocks_is_not_told_as_an_age():
    record = CycleRecord(1, Outcome.STALE_FRAME, ActionSource.ZERO, ACTION, frame_age_ms=1.8e12)
    made = statuses(metrics=run(record))["Action"]
    assert {pair.key: pair.value for pair in made.values}["frame_age_ms"] == "nan"


def test_two_robots_have_no_status_name_and_no_hardware_in_common():
    seen = []
    for node_name in ("/robot1/vla_reasoner", "/robot2/vla_reasoner"):
        snapshot = run().snapshot()
        made = diagnose(node_name, TimingConfig(), CameraHealth(), snapshot, ActionHealth(), EngineHealth())
        cycle = to_status(fresh(), node_name, 5).status
        seen.append({text for status in (*made, *cycle) for text in (status.name, status.hardware_id)})
    assert not seen[0] & seen[1] and len(seen[0]) == 8
