# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node: what is refused changes nothing, what is somebody else's is not read."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("rclpy", reason="parameters need rclpy")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402

from vla_edge_ros.config import ModelSource, VlaConfig  # noqa: E402
from vla_edge_ros.errors import ConfigError, EngineError, InstructionError, WeightsError  # noqa: E402
from vla_edge_ros.ros.parameters import (  # noqa: E402
    LiveParameter,
    NodeConfig,
    ParameterGate,
    errors_name_parameters,
)
from vla_edge_ros.ros.reasoning_node import ReasoningNode  # noqa: E402

pytestmark = pytest.mark.ros


def atomically(graph, node, **values):
    parameters = [Parameter(name.replace("__", "."), value=value) for name, value in values.items()]
    return graph.call(lambda: node.set_parameters_atomically(parameters))


class TestSets:
    @pytest.mark.parametrize(
        "others",
        [
            {"timing__deadline_ms": 50.0},
            {"cache__eviction": 3},
            {"autostart": False},
            {"use_sim_time": "a text"},  # refused by rclpy, after this node had its say
        ],
        ids=lambda others: next(iter(others)),
    )
    @pytest.mark.parametrize("is_first", [True, False])
    def test_a_set_that_is_refused_changes_nothing(self, graph, others, is_first):
        node = graph.reasoner()
        before = node._reasoner.instruction
        instruction = {"prompt__instruction": "wave"}
        values = {**instruction, **others} if is_first else {**others, **instruction}
        result = atomically(graph, node, **values)
        assert not result.successful and result.reason
        assert node.get_parameter("prompt.instruction").value == node._reasoner.instruction == before

    def test_a_set_that_is_accepted_takes_effect(self, graph):
        node = graph.reasoner()
        assert atomically(graph, node, prompt__instruction="wave", use_sim_time=False).successful
        assert node._reasoner.instruction == "wave"

    @pytest.mark.parametrize("text", ["", "  ", "word " * 500])
    def test_an_instruction_that_cannot_be_is_refused_before_and_after_configuration(self, graph, text):
        node = graph.reasoner(start=False)
        if len(text) < 100:  # how long it may be is known once there is a model
            result = atomically(graph, node, prompt__instruction=text)
            assert not result.successful and result.reason.startswith("prompt.instruction ")
        graph.call(lambda: node.start() or True)
        result = atomically(graph, node, prompt__instruction=text)
        assert not result.successful and result.reason.startswith("prompt.instruction ")

    @pytest.mark.parametrize("refused", ["fallback.mode", "fallback.max_repeats"])
    def test_of_two_live_parameters_neither_takes_effect_where_one_is_refused(self, refused):
        applied = []

        def live(name):
            def check(value):
                if name == refused:
                    raise ConfigError(f"{name} is refused")

            return LiveParameter(check, lambda value: applied.append((name, value)))

        names = ("fallback.mode", "fallback.max_repeats")
        gate = ParameterGate((VlaConfig,), {name: live(name) for name in names}, is_open=lambda: False)
        given = [Parameter("fallback.mode", value="zero"), Parameter("fallback.max_repeats", value=2.0)]
        assert not gate.check(given).successful
        assert applied == []

    def test_live_parameters_take_effect_in_their_type_and_order_once_accepted(self):
        applied = []
        live = {
            name: LiveParameter(lambda value: None, lambda value, name=name: applied.append((name, value)))
            for name in ("fallback.mode", "fallback.max_repeats")
        }
        gate = ParameterGate((VlaConfig,), live, is_open=lambda: False)
        given = [Parameter("fallback.max_repeats", value=2.0), Parameter("fallback.mode", value="zero")]
        assert gate.check(given).successful and applied == []
        gate.apply(given)
        assert applied == [("fallback.max_repeats", 2), ("fallback.mode", "zero")]

    def test_before_configuration_nothing_is_applied(self):
        def apply(value):
            raise AssertionError("nothing is there to apply it to")

        live = {"fallback.mode": LiveParameter(lambda value: None, apply)}
        gate = ParameterGate((VlaConfig,), live, is_open=lambda: True)
        given = [Parameter("fallback.mode", value="zero")]
        assert gate.check(given).successful
        gate.apply(given)


def a_node(folder, content: object) -> ReasoningNode:
    """A node with a parameter file; JSON is YAML, and keeps every type as it is."""
    file = folder / "parameters.yaml"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return ReasoningNode(cli_args=["--ros-args", "--params-file", str(file)])


class TestOtherNodesParameters:
    @pytest.mark.parametrize(
        "text",
        [
            "lidar: {topics: []}",
            "lidar: {topics: [], frames: ['']}",
            "lidar: []",
            "topics: []",
            "lidar: {a: {b: {c: {d: []}}}}",
            "lidar: {range: .nan, limits: [.inf, -.inf], 'on': true, name: ''}",
            "model_name: []",
            "frames: {width: []}",
            "model: 3",
            "action: []",
            "instruction: []",
        ],
    )
    def test_what_is_not_ours_is_not_read(self, ros_context, tmp_path, text):
        node = a_node(tmp_path, f"/**:\n  ros__parameters:\n    {text}\n    timing: {{period_ms: 40}}\n")
        try:
            assert node.get_parameter("timing.period_ms").value == 40
            names = set(node._parameters)
            assert not any(name.startswith(("lidar", "topics")) for name in names)
        finally:
            node.destroy_node()

    scalars = st.booleans() | st.integers(-(2**31), 2**31) | st.floats(allow_nan=False, allow_infinity=False)
    words = st.text("abcdefgh", min_size=1, max_size=6)
    items = scalars | words
    values = (
        items
        | st.just([])
        | st.lists(st.integers(0, 9), min_size=1)
        | st.lists(words, min_size=1)
        | st.lists(st.booleans(), min_size=1)
    )

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(foreign=st.dictionaries(words, values | st.dictionaries(words, values, min_size=1), max_size=5))
    def test_any_parameters_of_others_leave_the_node_as_it_is(self, ros_context, tmp_path, foreign):
        sections = {"lidar": foreign} if foreign else {}
        node = a_node(tmp_path, {"/**": {"ros__parameters": {**sections, "timing": {"period_ms": 40.5}}}})
        try:
            assert node.get_parameter("timing.period_ms").value == 40.5
        finally:
            node.destroy_node()

    def test_an_empty_list_of_ours_is_an_empty_list(self, graph, tmp_path):
        """It has no type, and the default took its place without a word."""
        file = tmp_path / "parameters.yaml"
        file.write_text("/**:\n  ros__parameters:\n    action: {names: []}\n    model: {preset: tiny}\n")
        node = graph.reasoner(start=False, node_args={"cli_args": ["--ros-args", "--params-file", str(file)]})
        graph.call(lambda: node.start() or True)
        assert "action.names must be non-empty and unique, got ()" in node.faults.current()

    def test_an_empty_list_for_a_number_is_refused_with_its_name(self, graph, tmp_path):
        file = tmp_path / "parameters.yaml"
        file.write_text("/**:\n  ros__parameters:\n    timing: {margin_ms: []}\n")
        node = graph.reasoner(start=False, node_args={"cli_args": ["--ros-args", "--params-file", str(file)]})
        graph.call(lambda: node.start() or True)
        assert "timing.margin_ms must be of type double" in node.faults.current()


class TestErrorsNameParameters:
    @pytest.mark.parametrize(
        ("error", "config", "start"),
        [
            (WeightsError("/m: no"), VlaConfig(model=ModelSource(path="/m")), "model.path: /m: no"),
            (WeightsError("no"), VlaConfig(), "model.preset: no"),
            (EngineError("expected a CUDA device"), VlaConfig(), "engine.name: expected a CUDA device"),
            (EngineError("engine.vram_ceiling_mb is 1"), VlaConfig(), "engine.vram_ceiling_mb is 1"),
            (InstructionError("too long"), VlaConfig(), "prompt.instruction: too long"),
            (ConfigError("cache.page_slots must"), VlaConfig(), "cache.page_slots must"),
            # Looks like a dotted name and is a file.
            (WeightsError("config.json: no"), VlaConfig(), "model.preset: config.json: no"),
        ],
    )
    def test_an_error_begins_with_the_parameter_it_comes_from(self, error, config, start):
        with pytest.raises(type(error)) as caught, errors_name_parameters(config):
            raise error
        assert str(caught.value) == start

    @pytest.mark.parametrize(
        ("values", "start"),
        [
            ({"model__path": "/no/such/model"}, "model.path"),
            ({"prompt__instruction": "word " * 500}, "prompt.instruction"),
            ({"prompt__instruction": " "}, "prompt.instruction"),
            ({"cache__capacity_slots": 65536}, "cache.capacity_slots"),
            ({"recording__path": "/dev/null"}, "recording.path"),
            ({"camera_timeout_ms": 0.0}, "camera_timeout_ms"),
            ({"max_stamp_lead_ms": -1.0}, "max_stamp_lead_ms"),
            ({"discovery_ms": "soon"}, "discovery_ms"),
            ({"timing__margin_ms": 1000.0}, "timing.margin_ms"),
            ({"action__low": [0.0]}, "action.low"),
            ({"fallback__mode": "jump"}, "fallback.mode"),
        ],
        ids=str,
    )
    def test_a_configuration_that_fails_names_the_parameter(self, graph, values, start):
        node = graph.reasoner(**values)
        assert node.faults.current().startswith(f"cannot configure: {start}"), node.faults.current()

    def test_no_default_section_is_named_where_a_parameter_has_none(self):
        with pytest.raises(ConfigError, match=r"^camera_timeout_ms must be at least"):
            NodeConfig(camera_timeout_ms=0.0)
