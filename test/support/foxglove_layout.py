# SPDX-License-Identifier: Apache-2.0
"""Reads a layout of Foxglove and Lichtblick: its panels, and what their message paths find in messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TOPIC = re.compile(r"(/\w+)+")
ELEMENT = re.compile(r'\.(?P<name>\w+)|\[(?P<index>\d*:?\d*)\]|\{(?P<field>\w+)=="(?P<text>[^"]*)"\}')


class NotPublishedError(Exception):
    """A path leads nowhere; the text says where it ends."""


def placed(tree: Any) -> list[str]:
    """The panels of one ``layout`` entry, each as often as it stands there."""
    if isinstance(tree, str):
        return [tree]
    assert tree["direction"] in ("row", "column") and 0 < tree["splitPercentage"] < 100
    return placed(tree["first"]) + placed(tree["second"])


def all_placed(layout: dict[str, Any]) -> list[str]:
    """The panels of the whole layout, those on tabs included."""
    panels = placed(layout["layout"])
    for panel in panels:  # grows meanwhile
        for tab in layout["configById"][panel].get("tabs", []):
            panels += placed(tab["layout"])
    return panels


def paths(layout: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The type of a panel, and a message path of it."""
    for panel, config in layout["configById"].items():
        for path in config.get("paths", []):
            yield panel.partition("!")[0], path["value"]


def topics(layout: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The type of a panel, and a topic that it shows as a whole."""
    for panel, config in layout["configById"].items():
        kind = panel.partition("!")[0]
        if "topicToRender" in config:
            yield kind, config["topicToRender"]
        if "imageMode" in config:
            yield kind, config["imageMode"]["imageTopic"]


def value(path: str, messages: dict[str, Any]) -> Any:
    """What ``path`` finds in the message of its topic: exactly one value, as both panels need it."""
    topic = TOPIC.match(path)
    if topic is None or topic.group() not in messages:
        raise NotPublishedError(f"{path}: no such topic")
    found, at = [messages[topic.group()]], topic.end()
    while at < len(path):
        element = ELEMENT.match(path, at)
        if element is None:
            raise NotPublishedError(f"{path}: not a message path at {path[at:]}")
        at = element.end()
        try:
            found = _step(found, **element.groupdict())
        except (AttributeError, IndexError) as error:
            raise NotPublishedError(f"{path}: {error}") from error
    if len(found) != 1:
        raise NotPublishedError(f"{path}: {len(found)} values")
    return found[0]


def _step(found: list[Any], name: str | None, index: str | None, field: str | None, text: str) -> list[Any]:
    if name is not None:
        return [getattr(item, name) for item in found]
    if index is not None:
        return [part for item in found for part in (item if index == ":" else [item[int(index)]])]
    return [item for item in found if getattr(item, str(field)) == text]
