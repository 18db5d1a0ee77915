# SPDX-License-Identifier: Apache-2.0
"""Which of several publishers on one action topic may publish: two of them would take turns at the robot.

A reasoner tells the others what it does by the names of two hidden topics on which nothing is ever sent:
``<action topic>/_reasoner/<id>`` from configuration on, and ``<action topic>/_claim/t<time>_<id>`` while it
is active or about to be. Names travel with discovery and vanish with the node, so nothing has to be kept
alive, and all nodes that see the same names come to the same answer: the lowest claim, which is the earliest,
may publish. Ids make claims of the same time differ. More publishers of actions than reasoners means one that
does not know this rule; it cannot be asked to stop, so the reasoner does.
"""

from __future__ import annotations

import secrets
import time

from rclpy.node import Node
from rclpy.publisher import Publisher
from std_msgs.msg import Empty

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.qos import silent_publisher

# Names of one node arrive one after another, and this one's before its publisher of actions.
LOOKS_UNTIL_FOREIGN = 3
LOOK_EVERY_S = 0.1
# Between a claim and an action, so that claims of the same moment meet. Between nodes that know each other,
# a new topic is seen within 0.02 s.
MEET_S = 0.5


class ActionClaim:
    """One node's claim to ``topic``, a full name. Used by one thread at a time.

    Create it before the publisher of actions, destroy it after. ``discovery_s``: how long after its creation
    a node knows the others. On one machine with two cores, two processes that started at the same time saw
    each other within 0.3 s, and within 0.95 s beside six busy processes (12 pairs each).
    """

    def __init__(self, node: Node, topic: str, node_made_s: float, discovery_s: float):
        self._node = node
        self._topic = topic
        self._known_s = node_made_s + discovery_s
        self._id = secrets.token_hex(4)
        self._presence = silent_publisher(node, Empty, f"{topic}/_reasoner/r{self._id}")
        self._claim: Publisher | None = None
        self._foreign_looks = 0

    def make(self) -> None:
        """Tell the others that this node is about to publish."""
        if self._claim is None:
            name = f"{self._topic}/_claim/t{time.time_ns():020d}_{self._id}"
            self._claim = silent_publisher(self._node, Empty, name)
            self._known_s = max(self._known_s, time.monotonic() + MEET_S)

    def wait_for_turn(self) -> None:
        """Claim, until all who publish actions must have been seen.

        Raises ``VlaEdgeError`` where another one goes first.
        """
        is_settled = False
        while not is_settled:
            self._refuse_behind_others()
            self.make()
            time.sleep(LOOK_EVERY_S)
            is_settled = self.is_settled()
        self._refuse_behind_others()

    def withdraw(self) -> None:
        """Leave the topic to others; safe to call twice."""
        if self._claim is not None:
            self._node.destroy_publisher(self._claim)
            self._claim = None

    def destroy(self) -> None:
        self.withdraw()
        self._node.destroy_publisher(self._presence)

    def is_settled(self) -> bool:
        """Has there been time enough to see everybody?"""
        return time.monotonic() >= self._known_s

    def rivals(self) -> int:
        """Publishers on the topic, besides this node's own, that may send."""
        claims, foreign = self._others()
        return len(claims) + foreign

    def obstacle(self) -> str:
        """Why this node must not publish, in words; empty where it may. Ask every ``LOOK_EVERY_S``.

        Before ``make``, every claim of another node is one; afterwards, a lower one. A publisher without a
        reasoner is one once it was there in several looks.
        """
        claims, foreign = self._others()
        self._foreign_looks = self._foreign_looks + 1 if foreign > 0 else 0
        mine = self._claim.topic_name if self._claim else ""
        if any(not mine or claim < mine for claim in claims):
            return f"{self._topic} has another reasoner, which was active before{self._names()}"
        if self._foreign_looks >= LOOKS_UNTIL_FOREIGN:
            return f"{self._topic} must have no other publisher, got {foreign}{self._names()}"
        return ""

    def _refuse_behind_others(self) -> None:
        if obstacle := self.obstacle():
            raise VlaEdgeError(obstacle)

    def _others(self) -> tuple[list[str], int]:
        """The claims of other reasoners, and how many publishers belong to no reasoner."""
        publishers = self._node.count_publishers(self._topic)
        if publishers <= 1:  # all that is asked for, nearly always
            return [], 0
        names = [name for name, _ in self._node.get_topic_names_and_types()]
        claims = [name for name in names if name.startswith(f"{self._topic}/_claim/")]
        reasoners = sum(name.startswith(f"{self._topic}/_reasoner/") for name in names)
        return [name for name in claims if not name.endswith(self._id)], publishers - reasoners

    def _names(self) -> str:
        infos = self._node.get_publishers_info_by_topic(self._topic)
        names = [f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in infos]
        own = self._node.get_fully_qualified_name()
        if own in names:
            names.remove(own)  # once: the other one may have the same name
        return (
            f" ({', '.join(sorted(names)) or 'of unknown name'}): two policies would alternate; "
            "one that was killed is still seen for up to 20 s"
        )
