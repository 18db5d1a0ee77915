# SPDX-License-Identifier: Apache-2.0
"""A rosbag2 as one stream of serialised messages: a recording's folder, or a bare ``.mcap`` or ``.db3``.

``rosbags`` reads all storage formats without a ROS installation. Its one-bag reader is used, not
``AnyReader``, which refuses a whole bag for one message type that it cannot parse, on whatever topic.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosbags.rosbag2 import Reader
from rosbags.rosbag2.storage_mcap import McapReader

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.base import WarnOnce
from vla_edge_ros.replay.mcap_repair import RepairedMcap, whole_bytes
from vla_edge_ros.replay.natural_order import natural_key


@dataclass(frozen=True, slots=True)
class Topic:
    """``messages``: how many the bag says it holds."""

    name: str
    type: str
    messages: int


class RosbagsStorage:
    """What ``rosbags`` can open: a folder with metadata.yaml, or one storage file."""

    def __init__(self, reader: Any):
        reader.open()
        self._reader = reader
        self.topics = [Topic(c.topic, c.msgtype, c.msgcount) for c in reader.connections]

    def messages(self, topic: str) -> Iterator[tuple[int, bytes]]:
        connections = [connection for connection in self._reader.connections if connection.topic == topic]
        for _, log_ns, data in self._reader.messages(connections) if connections else ():
            yield log_ns, data

    def close(self) -> None:
        self._reader.close()


class DamagedSqlite:
    """A ``.db3`` that ``rosbags`` refuses: cut short, or left by a killed recorder with its ``-wal`` file.

    Rows are read by their id, which needs neither the timestamp index nor a count of all rows.
    """

    def __init__(self, path: Path):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        self._database = sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            # Without this, SQLite refuses a file of fewer pages than its header says.
            self._database.execute("PRAGMA writable_schema = ON")
            rows = self._database.execute("SELECT name, type FROM topics ORDER BY id").fetchall()
        except sqlite3.Error:
            self._database.close()
            raise
        self.topics = [Topic(name, kind, 1) for name, kind in rows]

    def messages(self, topic: str) -> Iterator[tuple[int, bytes]]:
        yield from self._database.execute(
            "SELECT timestamp, data FROM messages WHERE topic_id IN (SELECT id FROM topics WHERE name = ?)"
            " ORDER BY messages.id",
            (topic,),
        )

    def close(self) -> None:
        self._database.close()


Storage = RosbagsStorage | DamagedSqlite


def storage_files(path: Path) -> list[Path]:
    """The bag's own storage files, in recording order."""
    if path.is_file():
        return [path]
    files = [file for suffix in ("*.mcap", "*.db3") for file in path.glob(suffix)]
    return sorted(files, key=lambda file: natural_key(file.name, decimals=False))


def open_storages(path: Path, warn: WarnOnce) -> list[Storage]:
    """``path`` opened whole where that works, else file by file, each as far as it is intact.

    Raises ``SourceError`` where nothing of it can be read.
    """
    reason = _unmerged_log(path)
    try:
        if not reason:
            return [RosbagsStorage(Reader(path))]
    except Exception as error:  # parsers raise whatever broken bytes lead them to; every kind means "damaged"
        reason = str(error) or type(error).__name__
    opened: list[Storage] = []
    for file in storage_files(path):
        try:
            opened.append(_open_damaged(file))
        except Exception as error:  # as above
            warn(f"{file.name} cannot be read: {error}")
    if not opened:
        raise SourceError(f"source {path} is not a rosbag2 that can be read: {reason}")
    warn(f"is damaged or cut short ({reason}); playing what is whole")
    return opened


def _unmerged_log(path: Path) -> str:
    """Why ``rosbags`` would leave messages out without a word: it does not read SQLite's write-ahead log."""
    logs = [file.with_name(f"{file.name}-wal") for file in storage_files(path)]
    found = [log.name for log in logs if log.exists() and log.stat().st_size]
    return f"{found[0]} was never merged" if found else ""


def _open_damaged(file: Path) -> Storage:
    if file.suffix == ".db3":
        return DamagedSqlite(file)
    try:
        return RosbagsStorage(Reader(file))
    except Exception:  # as above; what follows names the fault if it is beyond repair
        if not whole_bytes(file):
            raise
        return RosbagsStorage(McapReader(RepairedMcap(file)))  # type: ignore[arg-type]
