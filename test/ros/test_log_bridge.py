# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import logging

import pytest

pytestmark = pytest.mark.ros


class Heard:
    def __init__(self):
        self.said = []

    def __getattr__(self, severity):
        return lambda text: self.said.append((severity, text))


def test_severities_and_arguments_come_through_until_it_is_closed():
    from vla_edge_ros.ros.log_bridge import LogBridge

    source, target = logging.getLogger("test_log_bridge"), Heard()
    source.setLevel(logging.ERROR)
    bridge = LogBridge(source, target)
    source.debug("too fine")
    source.info("playing %s", "a")
    source.warning("cut")
    source.critical("gone")
    bridge.close()
    source.error("not heard")
    assert target.said == [("info", "playing a"), ("warning", "cut"), ("error", "gone")]
    assert source.level == logging.ERROR


def test_what_ros_cannot_log_reaches_it_escaped_and_a_broken_record_ends_nobody(monkeypatch, capsys):
    from rclpy.logging import get_logger

    from vla_edge_ros.ros.log_bridge import LogBridge

    source, target = logging.getLogger("test_log_bridge"), Heard()
    monkeypatch.setattr(source, "propagate", False)  # pytest's own handler raises for a broken record
    bridges = [LogBridge(source, target), LogBridge(source, get_logger("test_log_bridge"))]
    source.warning("no such file: %s", "/models/caf\udce9")
    source.warning("two values: %s %s", "one")
    try:
        raise KeyError("why")
    except KeyError:
        source.exception("stopped")
    for bridge in bridges:
        bridge.close()
    assert target.said[0] == ("warning", r"no such file: /models/caf\udce9")
    severity, text = target.said[1]
    assert severity == "error" and text.startswith("stopped\nTraceback") and "KeyError: 'why'" in text
    assert "not enough arguments" in capsys.readouterr().err
