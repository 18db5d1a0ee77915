# SPDX-License-Identifier: Apache-2.0
"""ROS topics of a run as a rosbag2 folder with MCAP storage, for ``ros2 bag``, Foxglove and PlotJuggler.

Takes serialized messages (CDR bytes) and so needs no ROS; ``rosbags`` writes the file and knows the message
definitions. The file's index is written by ``close``: after a crash the last megabyte is lost, and
``ros2 bag reindex`` or ``mcap recover`` makes the rest readable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.errors import WriterError
from rosbags.typesys import Stores, get_typestore

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.recording.background_writer import BackgroundWriter

WAITING_BYTES = 64 << 20  # about a second of VGA pictures at 60 Hz
_Message = tuple[str, int, bytes]


class McapWriter:
    """Writes messages of known topics into a new bag ``folder``, on a thread of its own.

    ``topics``: topic name to message type, ``{"/vla/action": "trajectory_msgs/msg/JointTrajectory"}``; types
    of the ROS distribution's common interfaces. Raises ``ConfigError`` where the bag cannot be made.
    """

    def __init__(self, folder: str | Path, topics: Mapping[str, str]):
        types = get_typestore(Stores.ROS2_JAZZY)
        for topic, message_type in topics.items():
            if message_type not in types.fielddefs:
                raise ConfigError(
                    f"recording.topics: {topic} must be of a common ROS type, got {message_type}"
                )
        try:
            self._bag = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
            self._bag.open()
        except (OSError, WriterError) as error:
            raise ConfigError(f"recording.path must take a new bag folder, got {folder}: {error}") from error
        self._connections = {
            topic: self._bag.add_connection(topic, message_type, typestore=types)
            for topic, message_type in topics.items()
        }
        self._writer: BackgroundWriter[_Message] = BackgroundWriter(
            "bag writer", self._write, WAITING_BYTES, self._bag.close
        )

    @property
    def dropped(self) -> int:
        """Messages that did not reach the disk."""
        return self._writer.dropped

    @property
    def error(self) -> str:
        """Why the writing stopped; empty while it runs."""
        return self._writer.error

    def record(self, topic: str, time_ns: int, message: bytes) -> None:
        """Queue one serialized message, received at ROS time ``time_ns``; any thread, never waits."""
        assert topic in self._connections, f"{topic} was not announced"
        self._writer.put((topic, time_ns, message), size=len(message))

    def close(self) -> None:
        """Write what waits, then the index; safe to call twice. Raises nothing, see ``error``."""
        self._writer.close()

    def _write(self, messages: Sequence[_Message]) -> None:
        for topic, time_ns, message in messages:
            self._bag.write(self._connections[topic], time_ns, message)
