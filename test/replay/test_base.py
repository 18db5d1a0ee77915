# SPDX-License-Identifier: Apache-2.0
"""Warnings of a source that plays for ever."""

from __future__ import annotations

import logging

from vla_edge_ros.replay.base import MOST_WARNINGS, WarnOnce


def test_a_warning_is_given_once(caplog):
    warn = WarnOnce("clip.mp4")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            warn("is damaged")
    assert caplog.messages == ["clip.mp4: is damaged"]


def test_a_source_with_any_number_of_faults_warns_a_bounded_number_of_times(caplog):
    warn = WarnOnce("bag")
    with caplog.at_level(logging.WARNING):
        for number in range(10 * MOST_WARNINGS):
            warn(f"message {number} is left out")
    assert len(caplog.messages) == MOST_WARNINGS + 1
    assert caplog.messages[-1] == "bag: further warnings are not shown"
