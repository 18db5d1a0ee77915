# SPDX-License-Identifier: Apache-2.0
"""Instructions from every kind of publisher, each once, and what an unchanged or empty one does: nothing."""

from __future__ import annotations

import types

import pytest

pytest.importorskip("rclpy", reason="the node needs rclpy")

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: E402
from std_msgs.msg import String  # noqa: E402

from vla_edge_ros.ros.instruction_input import InstructionInput  # noqa: E402

pytestmark = pytest.mark.ros


def sample(text: str, time_ns: int) -> tuple[String, dict[str, int]]:
    return String(data=text), {"source_timestamp": time_ns}


class FakeNode:
    def listen(self, message_type, topic, callback, qos, on_mismatch):
        return types.SimpleNamespace(topic_name=topic)


@pytest.mark.parametrize(
    ("arriving", "taken"),
    [
        ([("a", 1), ("a", 1)], ["a"]),
        ([("a", 1), ("b", 2), ("a", 1), ("b", 2)], ["a", "b"]),
        ([("a", 1), ("a", 2)], ["a", "a"]),
        ([("a", 5), ("b", 5)], ["a", "b"]),
        ([("a", 9), ("b", 3)], ["a", "b"]),
        ([("a", 0), ("b", 0), ("a", 0)], ["a", "b", "a"]),
    ],
    ids=["copy", "copies late", "said twice", "same time", "another clock", "no clock"],
)
def test_each_message_is_taken_once(arriving, taken):
    seen: list[str] = []
    instructions = InstructionInput(FakeNode(), seen.append)
    for text, time_ns in arriving:
        instructions.receive(*sample(text, time_ns))
    assert seen == taken


@pytest.mark.parametrize("durability", [DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL])
def test_publishers_that_keep_their_messages_and_those_that_do_not_are_heard(
    graph, durability, monkeypatch, capfd
):
    node = graph.reasoner()
    heard = []
    change = node._reasoner.set_instruction
    monkeypatch.setattr(node._reasoner, "set_instruction", lambda text: heard.append(text) or change(text))
    # As `ros2 topic pub` has it, and as it has it with --qos-durability transient_local.
    profile = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE, durability=durability)
    publisher = graph.tester.create_publisher(String, "instruction", profile)
    subscriptions = 2 if durability == DurabilityPolicy.TRANSIENT_LOCAL else 1
    graph.wait_until(lambda: publisher.get_subscription_count() >= subscriptions)
    for text in ("stack the cups", "wave", "stack the cups", "wave"):
        publisher.publish(String(data=text))
        graph.wait_until(lambda text=text: node._reasoner.instruction == text)
    publisher.publish(String(data="the end"))
    graph.wait_until(lambda: node._reasoner.instruction == "the end")
    assert heard == ["stack the cups", "wave", "stack the cups", "wave", "the end"]
    assert "incompatible" not in capfd.readouterr().err, "a publisher that is heard was told that it is not"


@pytest.mark.parametrize("on_change", ["flush", "keep"])
def test_the_same_instruction_again_keeps_the_memory(graph, on_change):
    graph.camera()
    node = graph.reasoner(prompt__on_change=on_change)
    publisher = graph.tester.create_publisher(String, "instruction", 10)
    graph.wait_until(lambda: publisher.get_subscription_count())
    publisher.publish(String(data="stack the cups"))
    graph.wait_until(lambda: node._reasoner.instruction == "stack the cups")
    cycles = node.metrics.cycles
    graph.wait_until(lambda: node.metrics.cycles > cycles + 2, "the instruction to be pinned")
    cache = node._reasoner.cache
    flushes = []
    flush, set_prompt = cache.flush, cache.set_prompt
    cache.flush = lambda: flushes.append("flush") or flush()
    cache.set_prompt = lambda count: flushes.append("prompt") or set_prompt(count)
    before = cache.slots_in_use
    frames = node.metrics.cycles
    for _ in range(10):
        publisher.publish(String(data="stack the cups"))
        graph.call(lambda: node.set_parameters([node.get_parameter("prompt.instruction")]))
    graph.wait_until(lambda: node.metrics.cycles > frames + 10)
    assert flushes == [] and cache.slots_in_use >= before
    publisher.publish(String(data="wave"))
    graph.wait_until(lambda: flushes == (["flush", "prompt"] if on_change == "flush" else ["prompt"]))


@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_an_empty_instruction_is_refused_and_the_old_one_stays(graph, text):
    node = graph.reasoner()
    before = node._reasoner.instruction
    publisher = graph.tester.create_publisher(String, "instruction", 10)
    graph.wait_until(lambda: publisher.get_subscription_count())
    for said in (text, "wave", text, "the end"):
        publisher.publish(String(data=said))
    graph.wait_until(lambda: node._reasoner.instruction == "the end")
    assert node.get_parameter("prompt.instruction").value == "the end" != before


def test_a_text_that_the_engine_failed_on_can_be_said_again(graph, failing_engines):
    node = graph.reasoner(make_engine=failing_engines)
    engine, write = failing_engines.made[0], failing_engines.made[0].write_prompt
    failures = []

    def write_prompt(token_ids, pages):
        if len(failures) < 1:
            failures.append(True)
            raise engine.error
        write(token_ids, pages)

    engine.write_prompt = write_prompt
    publisher = graph.tester.create_publisher(String, "instruction", 10)
    graph.wait_until(lambda: publisher.get_subscription_count())
    before = node._reasoner.instruction
    publisher.publish(String(data="wave"))
    graph.wait_until(lambda: failures and node._reasoner.instruction == before)
    publisher.publish(String(data="wave"))
    graph.wait_until(lambda: node._reasoner.instruction == "wave")
