# SPDX-License-Identifier: Apache-2.0
"""The node in a live graph: images in, actions, status and diagnostics out; and all that may go wrong."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="the node needs rclpy")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from node_under_test import newest, stamp_ns, value
from rclpy.qos import QoSProfile, ReliabilityPolicy
from trajectory_msgs.msg import JointTrajectory

from vla_edge_ros.errors import EngineError
from vla_edge_ros.ros.messages import is_stop

pytestmark = pytest.mark.ros


class TestRunning:
    def test_every_period_has_an_action_with_the_stamp_of_a_frame_that_was_sent(self, graph):
        camera = graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        statuses = graph.listen(DiagnosticArray, "status")
        node = graph.reasoner()
        graph.wait_until(lambda: len(actions) > 20, "twenty actions")
        sent = set(camera.stamps)
        stamps = [stamp_ns(action) for action in actions if not is_stop(action)]
        assert set(stamps) <= sent
        assert stamps == sorted(stamps)
        cycles = [int(value(array.status[0], "cycle")) for array in statuses]
        assert cycles == list(range(cycles[0], cycles[0] + len(cycles)))
        assert all(np.isfinite(action.points[0].positions).all() for action in actions)
        assert node.frames.refused == 0

    def test_status_and_action_of_a_cycle_share_their_stamp(self, graph):
        graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        statuses = graph.listen(DiagnosticArray, "status")
        graph.reasoner()
        graph.wait_until(lambda: len(actions) > 10)
        with_action = {stamp_ns(a) for a in statuses if value(a.status[0], "source") != "none"}
        assert {stamp_ns(action) for action in actions[:9]} <= with_action

    def test_nothing_is_published_before_the_first_image(self, graph):
        actions = graph.listen(JointTrajectory, "action")
        statuses = graph.listen(DiagnosticArray, "status")
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner()
        graph.wait_until(lambda: len(statuses) > 8)
        assert not actions
        assert value(statuses[-1].status[0], "outcome") == "no_frame_yet"
        camera = graph.wait_until(lambda: newest(diagnostics, "Camera"))
        assert camera.level == DiagnosticStatus.WARN and "waiting for image" in camera.message

    def test_a_silent_camera_leads_to_bounded_repeats_then_zero_motion_then_error_and_back(self, graph):
        camera = graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        statuses = graph.listen(DiagnosticArray, "status")
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(fallback__max_repeats=3, fallback__max_action_age_ms=10_000.0)
        graph.wait_until(lambda: len(actions) > 10)
        camera.is_on = False
        zero = graph.wait_until(lambda: next((a for a in actions[10:] if is_stop(a)), None))
        assert not any(zero.points[0].positions[:-1])
        assert stamp_ns(zero) > stamp_ns(actions[actions.index(zero) - 1]), "the time now, not the frame's"
        # Status is another topic: that of a cycle may arrive after its action.
        sources = graph.wait_until(
            lambda: "zero" in (seen := [value(array.status[0], "source") for array in statuses]) and seen,
            "the status of zero motion",
        )
        last_fresh = len(sources) - 1 - sources[::-1].index("fresh")
        assert sources[last_fresh + 1 : last_fresh + 5] == ["repeat"] * 3 + ["zero"]
        assert zero.points[0].positions[-1] == actions[actions.index(zero) - 1].points[0].positions[-1]
        graph.wait_until(lambda: newest(diagnostics, "Camera").level == DiagnosticStatus.ERROR)
        assert newest(diagnostics, "Action").level == DiagnosticStatus.ERROR
        camera.is_on = True
        graph.wait_until(lambda: value(statuses[-1].status[0], "source") == "fresh", "recovery")
        graph.wait_until(lambda: newest(diagnostics, "Camera").level == DiagnosticStatus.OK)

    def test_a_ten_seconds_old_frame_is_never_acted_on(self, graph):
        camera = graph.camera()
        camera.offset_ns = -10 * 10**9
        actions = graph.listen(JointTrajectory, "action")
        statuses = graph.listen(DiagnosticArray, "status")
        graph.reasoner()
        graph.wait_until(
            lambda: value(statuses[-1].status[0], "outcome") == "stale_frame" if statuses else False
        )
        assert not actions

    def test_frames_from_a_wrong_clock_are_acted_on_by_their_time_of_receipt_and_counted(self, graph):
        camera = graph.camera()
        camera.offset_ns = 5 * 10**9
        actions = graph.listen(JointTrajectory, "action")
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner()
        graph.wait_until(lambda: len(actions) > 5)
        now_ns = graph.tester.get_clock().now().nanoseconds
        assert all(stamp_ns(action) < now_ns for action in actions)
        graph.wait_until(lambda: int(value(newest(diagnostics, "Camera"), "stamp_future")) > 0)
        assert newest(diagnostics, "Camera").level == DiagnosticStatus.WARN


class TestBadInput:
    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"encoding": "32FC1"}, "encoding"),
            ({"encoding": ""}, "encoding"),
            ({"height": 0, "width": 0, "data": b""}, "size"),
            ({"step": 383}, "step"),
            ({"data": bytes(64 * 384 - 1)}, "data"),
            ({"width": 4294967295, "step": 0}, "data"),
        ],
    )
    def test_a_bad_image_is_counted_by_reason_and_the_next_good_one_is_used(self, graph, fields, reason):
        camera = graph.camera(**fields)
        actions = graph.listen(JointTrajectory, "action")
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner()
        graph.wait_until(
            lambda: (status := newest(diagnostics, "Camera")) and int(value(status, f"refused_{reason}")) > 3
        )
        assert newest(diagnostics, "Camera").level == DiagnosticStatus.WARN
        assert not actions
        good = {"height": 64, "width": 128, "encoding": "rgb8", "step": 384, "data": bytes(64 * 384)}
        for name, content in good.items():
            setattr(camera.message, name, content)
        graph.wait_until(lambda: actions, "an action from a good image")

    def test_any_size_and_padding_is_taken(self, graph):
        step = 641
        graph.camera(height=480, width=640, encoding="mono8", step=step, data=bytes(480 * step))
        actions = graph.listen(JointTrajectory, "action")
        graph.reasoner()
        graph.wait_until(lambda: actions)

    def test_an_exception_in_the_image_callback_is_a_fault_and_not_the_end(self, graph, monkeypatch):
        graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        node = graph.reasoner()
        graph.wait_until(lambda: actions)
        with monkeypatch.context() as patch:
            patch.setattr(node._input, "_slot", None)  # what cannot happen, happens
            status = graph.wait_until(
                lambda: (s := newest(diagnostics, "Action")).level == DiagnosticStatus.ERROR and s
            )
            assert "AttributeError" in status.message
        count = len(actions)
        graph.wait_until(lambda: len(actions) > count + 5, "more actions afterwards")


class TestEngineTrouble:
    @pytest.mark.parametrize("error", [EngineError("kernel 7 failed"), ZeroDivisionError("a bug")])
    def test_an_exception_in_the_engine_is_a_fallback_and_an_error_and_it_recovers(
        self, graph, failing_engines, error
    ):
        graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        statuses = graph.listen(DiagnosticArray, "status")
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(make_engine=failing_engines)
        graph.wait_until(lambda: len(actions) > 5)
        engine = failing_engines.made[0]
        engine.error, engine.fail_at = error, "prefill"
        failed = graph.wait_until(
            lambda: next(
                (a.status[0] for a in statuses if value(a.status[0], "outcome") == "engine_error"), None
            )
        )
        assert failed.level == DiagnosticStatus.ERROR and str(error) in failed.message
        count = len(actions)
        graph.wait_until(lambda: len(actions) > count + 5, "fallbacks")
        graph.wait_until(lambda: newest(diagnostics, "Action").level == DiagnosticStatus.ERROR)
        engine.fail_at = ""
        graph.wait_until(lambda: value(statuses[-1].status[0], "source") == "fresh", "recovery")

    def test_images_are_received_while_the_model_computes(self, graph, failing_engines, monkeypatch):
        """No inference in the executor's thread: a chunk that lasts for ten images does not hold them up."""
        graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        node = graph.reasoner(make_engine=failing_engines)
        graph.wait_until(lambda: actions)
        engine = failing_engines.made[0]
        prefill, received = engine.prefill, []

        def slow_prefill(*chunk):
            monkeypatch.setattr(engine, "prefill", prefill)
            before = node.frames.written
            graph.wait_until(lambda: node.frames.written >= before + 10, "images during one chunk")
            received.append(node.frames.written - before)
            return prefill(*chunk)

        monkeypatch.setattr(engine, "prefill", slow_prefill)
        graph.wait_until(lambda: received)
        count = len(actions)
        graph.wait_until(lambda: len(actions) > count + 3, "actions afterwards")


class TestQos:
    def test_reliability_of_the_image_subscription_can_be_overridden(self, graph):
        override = {f"qos_overrides.{graph.namespace}/image.subscription.reliability": "reliable"}
        node = graph.reasoner(**override)
        infos = graph.wait_until(
            lambda: node.get_subscriptions_info_by_topic(f"{graph.namespace}/image"), "the subscription"
        )
        assert infos[0].qos_profile.reliability == ReliabilityPolicy.RELIABLE

    def test_a_camera_whose_policy_does_not_match_is_named_in_the_diagnostics(self, graph):
        override = {f"qos_overrides.{graph.namespace}/image.subscription.reliability": "reliable"}
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(**override)
        best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        from sensor_msgs.msg import Image

        graph.tester.create_publisher(Image, "image", best_effort)
        graph.wait_until(
            lambda: (
                (s := newest(diagnostics, "Camera"))
                and s.level == DiagnosticStatus.WARN
                and "RELIABILITY" in s.message
            )
        )

    def test_the_action_is_reliable_and_offers_a_deadline(self, graph):
        node = graph.reasoner()
        infos = node.get_publishers_info_by_topic(f"{graph.namespace}/action")
        assert len(infos) == 1
        qos = infos[0].qos_profile
        assert qos.reliability == ReliabilityPolicy.RELIABLE
        assert qos.deadline.nanoseconds == 200_000_000
