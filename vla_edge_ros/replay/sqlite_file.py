# SPDX-License-Identifier: Apache-2.0
"""One ``.db3`` file of a rosbag2: whole, cut short, or left by a killed recorder with its ``-wal`` file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.topic import Topic

MAGIC = b"SQLite format 3\0"


class SqliteFile:
    """``topics``: every one, also what cannot be read. ``damage``: why some of it is not read, or empty."""

    def __init__(self, path: Path):
        self.damage = ""
        log = path.with_name(f"{path.name}-wal")
        has_log = log.exists() and log.stat().st_size > 0
        try:
            self._open(path, is_settled=not has_log)
        except sqlite3.Error as error:
            if not has_log:
                raise SourceError(f"not a rosbag2 database ({error})") from None
            self.damage = f"its {log.name} cannot be merged: {error}"
            self._open(path, is_settled=True)
        self.topics = list(self._ids)

    def _open(self, path: Path, is_settled: bool) -> None:
        # What a killed recorder left in its write-ahead log is merged by SQLite, which writes an index of the
        # log beside it. Without a log nothing need be locked or written: a read-only disk will do.
        mode = "mode=ro&immutable=1" if is_settled else "mode=ro"
        uri = f"{path.absolute().as_uri()}?{mode}"
        self._database = sqlite3.connect(uri, uri=True, check_same_thread=False)
        self._ids: dict[Topic, list[int]] = {}
        try:
            # Without this, SQLite refuses a file of fewer pages than its header says.
            self._database.execute("PRAGMA writable_schema = ON")
            for row_id, name, kind, encoding in self._database.execute(
                "SELECT id, name, type, serialization_format FROM topics ORDER BY id"
            ):
                self._ids.setdefault(Topic(str(name), str(kind), str(encoding)), []).append(row_id)
        except sqlite3.Error:
            self._database.close()
            raise

    def has_messages(self, topic: Topic) -> bool:
        of_topic = "SELECT 1 FROM messages WHERE topic_id = ? LIMIT 1"
        try:
            return any(
                self._database.execute(of_topic, (row,)).fetchone() for row in self._ids.get(topic, ())
            )
        except sqlite3.Error:  # reading them will tell
            return True

    def messages(self, topic: Topic) -> Iterator[tuple[int, bytes]]:
        """``(time of receipt in ns, data)`` by time; where that index is damaged, as they were written."""
        ids = self._ids.get(topic, [])
        of_topic = f"FROM messages WHERE topic_id IN ({','.join('?' * len(ids))})"
        try:
            # Only row numbers are sorted: without an index of times SQLite would sort the images themselves.
            rows = self._database.execute(f"SELECT id {of_topic} ORDER BY timestamp, id", ids).fetchall()
        except sqlite3.Error:
            yield from _typed(self._database.execute(f"SELECT timestamp, data {of_topic} ORDER BY id", ids))
            return
        for row in rows:
            yield from _typed(
                self._database.execute("SELECT timestamp, data FROM messages WHERE id = ?", row)
            )

    def close(self) -> None:
        self._database.close()


def _typed(rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    """SQLite keeps a value of any type in any column, and finds such in damaged rows."""
    for time_ns, data in rows:
        if isinstance(time_ns, int):
            yield time_ns, data if isinstance(data, bytes) else b""
