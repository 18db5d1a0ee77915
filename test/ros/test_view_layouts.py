# SPDX-License-Identifier: Apache-2.0
"""config/foxglove_layout.json and config/plotjuggler_layout.xml show what the nodes publish."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("rclpy", reason="messages need rclpy's type support")

import foxglove_layout as foxglove  # noqa: E402
from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from plotjuggler_layout import numeric_series  # noqa: E402
from published_messages import published  # noqa: E402

from vla_edge_ros.ros import launch_choices  # noqa: E402

pytestmark = pytest.mark.ros

CONFIG = Path(__file__).resolve().parents[2] / "config"
FOXGLOVE = (CONFIG / "foxglove_layout.json").read_text(encoding="utf-8")
PLOTJUGGLER = (CONFIG / "plotjuggler_layout.xml").read_text(encoding="utf-8")
PUBLISHED = published()
# The panels that both Foxglove and Lichtblick have, of those that the layout may use.
PANELS = {"Image", "Plot", "StateTransitions", "DiagnosticSummary", "DiagnosticStatusPanel", "Tab"}
SHOWN_TYPES = {
    "Image": "Image",
    "DiagnosticSummary": "DiagnosticArray",
    "DiagnosticStatusPanel": "DiagnosticArray",
}


def wrong_in_foxglove(text: str, messages: dict) -> list[str]:
    """What the layout asks for and nobody publishes."""
    layout, wrong = json.loads(text), []
    for kind, path in foxglove.paths(layout):
        try:
            value = foxglove.value(path, messages)
            if kind == "Plot":
                float(value)
        except (foxglove.NotPublishedError, ValueError) as error:
            wrong.append(f"{kind}: {error}")
    for kind, topic in foxglove.topics(layout):
        if type(messages.get(topic)).__name__ != SHOWN_TYPES[kind]:
            wrong.append(f"{kind}: {topic}")
    names = {status.name for status in messages["/diagnostics"].status}
    shown = {panel.get("selectedName") for panel in layout["configById"].values()} - {None}
    return wrong + sorted(shown - names)


def curves(text: str) -> list[str]:
    return [curve.attrib["name"] for curve in ElementTree.fromstring(text).iter("curve")]


def test_foxglove_places_each_panel_once_and_knows_its_type():
    layout = json.loads(FOXGLOVE)
    assert set(layout) == {"configById", "globalVariables", "layout", "playbackConfig", "userNodes"}
    panels = foxglove.all_placed(layout)
    assert sorted(panels) == sorted(layout["configById"])
    assert {panel.partition("!")[0] for panel in panels} == PANELS
    for panel, config in layout["configById"].items():
        titles = [config.get(f"{name}PanelTitle") for name in ("foxglove", "lichtblick")]
        assert panel.startswith("Tab!") or (titles[0] and titles[0] == titles[1]), panel


def test_foxglove_shows_what_is_published():
    assert len(list(foxglove.paths(json.loads(FOXGLOVE)))) > 40
    assert wrong_in_foxglove(FOXGLOVE, PUBLISHED) == []


def test_plotjuggler_shows_what_is_published():
    assert len(curves(PLOTJUGGLER)) > 40
    assert set(curves(PLOTJUGGLER)) - numeric_series(PUBLISHED) == set()


def test_plotjuggler_can_read_its_file():
    """It takes counts, sizes and the name of its main window as they are; a wrong one is a crash."""
    root = ElementTree.fromstring(PLOTJUGGLER)
    (widget,) = root.iter("tabbed_widget")
    assert root.tag == "root" and widget.attrib == {"name": "Main Window", "parent": "main_window"}
    for tab in widget.iter("Tab"):
        assert int(tab.attrib["containers"]) == len(tab.findall("Container")) == 1
    for splitter in root.iter("DockSplitter"):
        sizes = [float(size) for size in splitter.attrib["sizes"].split(";")]
        assert splitter.attrib["orientation"] in "-|"
        assert int(splitter.attrib["count"]) == len(sizes) == len(splitter) > 0
        assert sum(sizes) == pytest.approx(1, abs=0.01)
        assert {child.tag for child in splitter} <= {"DockArea", "DockSplitter"}
    for area in root.iter("DockArea"):
        assert [child.tag for child in area] == ["plot"] and area[0].attrib["mode"] == "TimeSeries"


def renamed(path: str) -> list[str]:
    """``path`` with one of its words changed, for each word, as it would be after a change in the code."""
    words = re.finditer(r"\w+", path)
    return [f"{path[: word.start()]}renamed{path[word.end() :]}" for word in words]


def test_any_name_that_changes_in_the_code_is_found():
    for _, path in foxglove.paths(json.loads(FOXGLOVE)):
        for changed in renamed(path):
            with pytest.raises(foxglove.NotPublishedError):
                foxglove.value(changed, PUBLISHED)
    changed_curves = {changed for curve in curves(PLOTJUGGLER) for changed in renamed(curve)}
    assert changed_curves & numeric_series(PUBLISHED) == set()
    for named, other in [
        ('"imageTopic": "/vla/image"', '"imageTopic": "/vla/picture"'),
        ('"topicToRender": "/diagnostics"', '"topicToRender": "/vla/image"'),
        ('"selectedName": "/vla/tabletop: Robot"', '"selectedName": "/vla/tabletop: Arm"'),
    ]:
        assert named in FOXGLOVE and wrong_in_foxglove(FOXGLOVE.replace(named, other), PUBLISHED)


def test_the_layouts_are_for_the_namespace_of_the_launch_files():
    """What a topic is prefixed with there; ``/diagnostics`` has no namespace."""
    (namespace,) = (a.default for a in launch_choices.REASONING if a.name == "namespace")
    named = [path for _, path in foxglove.paths(json.loads(FOXGLOVE))] + curves(PLOTJUGGLER)
    assert all(name.startswith((f"/{namespace}/", "/diagnostics")) for name in named)
    in_diagnostics = [name for name in named if name.startswith("/diagnostics")]
    assert all(f"/{namespace}/" in name for name in in_diagnostics)


@pytest.fixture
def live_messages(graph):
    """One message of each topic, from a running reasoner that the simulated robot shows pictures to."""
    from rclpy.parameter import Parameter

    from vla_edge_ros.ros.tabletop_node import TabletopNode

    kinds = {topic: type(message) for topic, message in published(graph.namespace).items()}
    heard = graph.call(lambda: {topic: graph.listen(kind, topic) for topic, kind in kinds.items()})
    reasoner = graph.reasoner()
    rules = {"physics": False, "reasoner": "", "tasks": ["point"], "delays": [0]}
    robot = TabletopNode(
        namespace=graph.namespace, parameter_overrides=[Parameter(k, value=v) for k, v in rules.items()]
    )
    graph._add(robot)
    offered = {
        topic
        for node in (reasoner, robot)
        for topic, _ in node.get_publisher_names_and_types_by_node(node.get_name(), node.get_namespace())
    }
    assert kinds.keys() <= offered  # nobody would wait in vain for a topic of another name
    robot.start()
    try:
        graph.wait_until(lambda: all(heard.values()), "a message of each topic")
        graph.wait_until(lambda: len(by_name(heard["/diagnostics"])) == 7, "all statuses")
    finally:
        robot.stop()
    return {
        **{topic: messages[-1] for topic, messages in heard.items()},
        "/diagnostics": DiagnosticArray(status=list(by_name(heard["/diagnostics"]).values())),
    }


def by_name(arrays: list[DiagnosticArray]) -> dict:
    return {status.name: status for array in list(arrays) for status in array.status}


def test_running_nodes_publish_what_the_layouts_show(live_messages, graph):
    """The topics' names and types, and messages that nothing in a test has made."""
    text = FOXGLOVE.replace("/vla/", f"{graph.namespace}/")
    assert wrong_in_foxglove(text, live_messages) == []
    named = {curve.replace("/vla/", f"{graph.namespace}/") for curve in curves(PLOTJUGGLER)}
    assert named - numeric_series(live_messages) == set()
