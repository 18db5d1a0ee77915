# SPDX-License-Identifier: Apache-2.0
"""The node's lifecycle and its parameters: what keeps it from starting, what may change while it runs."""

from __future__ import annotations

import dataclasses
import json

import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models

pytest.importorskip("rclpy", reason="the node needs rclpy")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from node_under_test import change, newest, state, value
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import tensor_shapes
from vla_edge_ros.ros.messages import is_stop

pytestmark = pytest.mark.ros

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def write_text_model(folder) -> None:
    """The tiny preset as somebody's checkpoint, with a tokenizer and without a projection of pictures."""
    weights = RandomWeights(TINY, seed=0)
    tensors = {name: weights.tensor(name) for name in tensor_shapes(TINY)}
    save_file(tensors, folder / "model.safetensors")
    sizes = {key: item for key, item in dataclasses.asdict(TINY).items() if key != "qkv_bias"}
    (folder / "config.json").write_text(json.dumps({**sizes, "model_type": "qwen2"}))
    vocabulary = {f"word {i}": i for i in range(TINY.vocab_size)}
    Tokenizer(models.WordLevel(vocabulary, unk_token="word 0")).save(str(folder / "tokenizer.json"))


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
        graph.wait_until(lambda: is_stop(actions[-1]))
        assert not any(actions[-1].points[0].positions[:-1])
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

    def test_a_statistics_file_that_is_not_there_keeps_the_node_unconfigured(self, graph):
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(action__statistics_file="/nowhere/dataset_statistics.json")
        assert state(graph) == "unconfigured"
        told = graph.wait_until(lambda: (s := newest(diagnostics, "Action")) and s.message)
        assert "action.statistics_file /nowhere/dataset_statistics.json" in told and "no such file" in told

    def test_a_rate_that_zero_cannot_stop_keeps_the_node_unconfigured(self, graph):
        diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
        graph.reasoner(action__low=[0.5] + [-1.0] * 7, action__high=[1.5] + [1.0] * 7)
        assert state(graph) == "unconfigured"
        graph.wait_until(
            lambda: (s := newest(diagnostics, "Action")) and "terminate must be a position" in s.message
        )
