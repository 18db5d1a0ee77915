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
