# SPDX-License-Identifier: Apache-2.0
"""The node in a live graph: images in, actions, status and diagnostics out; and all that may go wrong."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models

pytest.importorskip("rclpy", reason="the node needs rclpy")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState, GetState  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

from vla_edge_ros.errors import EngineError  # noqa: E402
from vla_edge_ros.model.decoder_config import TINY  # noqa: E402
from vla_edge_ros.model.random_weights import RandomWeights  # noqa: E402
from vla_edge_ros.model.tensor_shapes import tensor_shapes  # noqa: E402

pytestmark = pytest.mark.ros

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def stamp_ns(message) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def newest(arrays: list[DiagnosticArray], name: str) -> DiagnosticStatus | None:
    """The last status with this subject."""
    for array in reversed(list(arrays)):
        for status in array.status:
            if status.name.endswith(f": {name}"):
                return status
    return None


def value(status: DiagnosticStatus, key: str) -> str:
    return next(pair.value for pair in status.values if pair.key == key)


def change(graph, transition_id: int) -> bool:
    """Ask for a lifecycle transition through the node's service, as ``ros2 lifecycle set`` does."""
    client = graph.tester.create_client(ChangeState, "vla_reasoner/change_state")
    assert client.wait_for_service(10.0)
    future = client.call_async(ChangeState.Request(transition=Transition(id=transition_id)))
    return graph.wait_until(future.done) and future.result().success


def state(graph) -> str:
    client = graph.tester.create_client(GetState, "vla_reasoner/get_state")
    assert client.wait_for_service(10.0)
    future = client.call_async(GetState.Request())
    graph.wait_until(future.done)
    return future.result().current_state.label


def write_text_model(folder) -> None:
    """The tiny preset as somebody's checkpoint, with a tokenizer and without a projection of pictures."""
    weights = RandomWeights(TINY, seed=0)
    tensors = {name: weights.tensor(name) for name in tensor_shapes(TINY)}
    save_file(tensors, folder / "model.safetensors")
    sizes = {key: item for key, item in dataclasses.asdict(TINY).items() if key != "qkv_bias"}
    (folder / "config.json").write_text(json.dumps({**sizes, "model_type": "qwen2"}))
    vocabulary = {f"word {i}": i for i in range(TINY.vocab_size)}
    Tokenizer(models.WordLevel(vocabulary, unk_token="word 0")).save(str(folder / "tokenizer.json"))


class TestRunning:
    def test_every_period_has_an_action_with_the_stamp_of_a_frame_that_was_sent(self, graph):
        camera = graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        statuses = graph.listen(DiagnosticArray, "status")
        node = graph.reasoner()
        graph.wait_until(lambda: len(actions) > 20, "twenty actions")
        sent = set(camera.stamps)
        stamps = [stamp_ns(action) for action in actions]
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
        zero = graph.wait_until(
            lambda: next((a for a in actions[10:] if not any(a.points[0].positions[:-1])), None)
        )
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


class TestLifecycle:
    def test_a_missing_checkpoint_leaves_the_node_unconfigured_with_the_path_in_the_reason(
        self, graph, tmp_path
    ):
        missing = tmp_path / "no_such_model"
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        node = graph.reasoner(model__path=str(missing))
        assert state(graph) == "unconfigured"
        status = graph.wait_until(
            lambda: (s := newest(diagnostics, "Action")) and s.level == DiagnosticStatus.ERROR and s
        )
        assert str(missing) in status.message
        # Mended by the user, the second attempt works, in the same process.
        graph.call(lambda: node.set_parameters([Parameter("model.path", value="")]))
        assert change(graph, Transition.TRANSITION_CONFIGURE)
        assert change(graph, Transition.TRANSITION_ACTIVATE)
        assert state(graph) == "active"
        graph.wait_until(lambda: newest(diagnostics, "Action").level != DiagnosticStatus.ERROR)

    def test_a_model_that_cannot_see_says_so_in_the_log_and_for_ever_in_the_diagnostics(
        self, graph, tmp_path, capfd
    ):
        write_text_model(tmp_path)
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(model__path=str(tmp_path))
        assert state(graph) == "active"
        assert (
            capfd.readouterr().err.count("THE MODEL CANNOT SEE") == 2
        )  # configured, and again when activated
        status = graph.wait_until(lambda: newest(diagnostics, "GPU"))
        assert status.level == DiagnosticStatus.WARN and "vla.patch_projection" in status.message
        assert value(status, "model_caveats") == "1"

    def test_a_wrong_parameter_leaves_the_node_unconfigured_with_its_name_in_the_reason(self, graph):
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(timing__deadline_ms=-1.0)
        assert state(graph) == "unconfigured"
        graph.wait_until(lambda: (s := newest(diagnostics, "Action")) and "timing.deadline_ms" in s.message)

    def test_an_engine_that_cannot_load_can_be_tried_again(self, graph, failing_engines):
        def make(config):
            engine = failing_engines(config)
            engine.fail_at = "load" if len(failing_engines.made) == 1 else ""
            return engine

        graph.reasoner(make_engine=make)
        assert state(graph) == "unconfigured"
        assert failing_engines.made[0].closed
        assert change(graph, Transition.TRANSITION_CONFIGURE)
        assert state(graph) == "inactive"

    def test_without_autostart_it_waits_and_can_be_cycled(self, graph):
        graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        graph.reasoner(autostart=False)
        assert state(graph) == "unconfigured"
        for _ in range(2):
            assert change(graph, Transition.TRANSITION_CONFIGURE)
            assert change(graph, Transition.TRANSITION_ACTIVATE)
            count = len(actions)
            graph.wait_until(lambda count=count: len(actions) > count + 3)
            assert change(graph, Transition.TRANSITION_DEACTIVATE)
            assert change(graph, Transition.TRANSITION_CLEANUP)
        assert state(graph) == "unconfigured"

    def test_zero_motion_with_the_gripper_held_is_the_last_message_on_deactivation(self, graph):
        graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        statuses = graph.listen(DiagnosticArray, "status")
        graph.reasoner()
        graph.wait_until(lambda: len(actions) > 10)
        assert change(graph, Transition.TRANSITION_DEACTIVATE)
        graph.wait_until(lambda: value(statuses[-1].status[0], "outcome") == "stopped")
        graph.wait_until(lambda: not any(actions[-1].points[0].positions[:-1]))
        assert actions[-1].points[0].positions[-1] == actions[-2].points[0].positions[-1]
        assert state(graph) == "inactive"

    def test_a_second_publisher_of_actions_keeps_the_node_from_activating(self, graph):
        graph.tester.create_publisher(JointTrajectory, "action", 10)
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner()
        assert state(graph) == "inactive"
        status = graph.wait_until(
            lambda: (s := newest(diagnostics, "Action")) and s.level == DiagnosticStatus.ERROR and s
        )
        assert f"{graph.namespace}/action" in status.message

    def test_a_second_publisher_that_comes_later_is_an_error(self, graph):
        graph.camera()
        actions = graph.listen(JointTrajectory, "action")
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner()
        graph.wait_until(lambda: actions)
        graph.tester.create_publisher(JointTrajectory, "action", 10)
        graph.wait_until(lambda: "2 publishers" in newest(diagnostics, "Action").message)


class TestParametersAtRunTime:
    def test_the_instruction_changes_by_topic_and_by_parameter(self, graph):
        node = graph.reasoner()
        publisher = graph.tester.create_publisher(String, "instruction", LATCHED)
        publisher.publish(String(data="stack the cups"))  # latched: it need not wait for the subscription
        graph.wait_until(lambda: node._reasoner.instruction == "stack the cups")
        assert node.get_parameter("prompt.instruction").value == "stack the cups"
        result = graph.call(lambda: node.set_parameters([Parameter("prompt.instruction", value="wave")]))[0]
        assert result.successful and node._reasoner.instruction == "wave"

    def test_an_instruction_that_does_not_fit_is_refused_and_the_old_one_stays(self, graph):
        node = graph.reasoner()
        before = node._reasoner.instruction
        long = Parameter("prompt.instruction", value="word " * 500)
        result = graph.call(lambda: node.set_parameters([long]))[0]
        assert not result.successful and result.reason
        assert node._reasoner.instruction == node.get_parameter("prompt.instruction").value == before

    def test_what_is_read_at_configuration_cannot_change_after_it(self, graph):
        node = graph.reasoner()
        result = graph.call(lambda: node.set_parameters([Parameter("timing.period_ms", value=90.0)]))[0]
        assert not result.successful and "configure" in result.reason

    def test_a_value_of_the_wrong_type_is_refused_at_once(self, graph):
        node = graph.reasoner(start=False)
        result = graph.call(lambda: node.set_parameters([Parameter("timing.period_ms", value="x")]))[0]
        assert not result.successful and "timing.period_ms" in result.reason

    def test_an_integer_serves_for_a_double(self, graph):
        node = graph.reasoner(timing__period_ms=40, timing__deadline_ms=40)
        assert state(graph) == "active"
        assert node._config.timing.period_ms == 40.0

    def test_a_misspelt_parameter_is_refused_with_a_hint(self, graph):
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(timing__dedline_ms=30.0)
        assert state(graph) == "unconfigured"
        graph.wait_until(
            lambda: (s := newest(diagnostics, "Action")) and "did you mean timing.deadline_ms?" in s.message
        )

    def test_a_parameter_of_an_earlier_version_is_refused_with_what_to_write_instead(self, graph):
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(action__held=["gripper", "dx"])
        assert state(graph) == "unconfigured"
        graph.wait_until(
            lambda: (s := newest(diagnostics, "Action")) and "action.held is no parameter" in s.message
        )
        assert "action.kinds" in newest(diagnostics, "Action").message

    def test_a_rate_that_zero_cannot_stop_keeps_the_node_unconfigured(self, graph):
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(action__low=[0.5] + [-1.0] * 7, action__high=[1.5] + [1.0] * 7)
        assert state(graph) == "unconfigured"
        graph.wait_until(
            lambda: (s := newest(diagnostics, "Action")) and "terminate must be a position" in s.message
        )


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
