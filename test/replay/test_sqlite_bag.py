# SPDX-License-Identifier: Apache-2.0
"""What is particular to a bag in an SQLite database."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from made_bags import levels, raw, write_bag

from vla_edge_ros.replay.open_source import open_source


def database_of(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(next(path.glob("*.db3")))


def test_rows_are_played_by_time_with_an_index_of_times_and_without(tmp_path):
    path = write_bag(tmp_path / "bag", [("/cam", time, raw(time)) for time in (3, 1, 2, 0)], "db3")
    assert levels(open_source(str(path))) == [0, 1, 2, 3]
    database = database_of(path)
    database.execute("DROP INDEX timestamp_idx")
    database.commit()
    assert levels(open_source(str(path))) == [0, 1, 2, 3]


def test_rows_of_another_type_are_left_out(tmp_path, warnings):
    path = write_bag(tmp_path / "bag", [("/cam", time, raw(time)) for time in range(4)], "db3")
    database = database_of(path)
    database.execute("UPDATE messages SET data = 'text' WHERE timestamp = 1000000")
    database.execute("UPDATE messages SET timestamp = 'noon' WHERE timestamp = 2000000")
    database.commit()
    assert levels(open_source(str(path))) == [0, 3]


def test_reading_writes_nothing_into_the_folder(tmp_path):
    """A recorder that was ended well leaves a database in write-ahead mode; the disk may be read-only."""
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(3)], "db3")
    database = database_of(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.close()
    before = sorted(path.iterdir())
    source = open_source(str(path))
    frames = iter(source)
    next(frames)
    assert sorted(path.iterdir()) == before
    source.close()


def test_rows_still_in_the_write_ahead_log_of_a_killed_recorder_play(tmp_path):
    path = write_bag(tmp_path / "bag", [("/cam", i, raw(i)) for i in range(3)], "db3")
    file = next(path.glob("*.db3"))
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA wal_autocheckpoint=0")
    database.execute(
        "INSERT INTO messages (topic_id, timestamp, data) SELECT topic_id, 9, data FROM messages"
    )
    database.commit()
    for kept in path.glob("*.db3*"):
        shutil.copy(kept, tmp_path / kept.name)
    database.close()
    assert len(list(tmp_path.glob("*-wal"))) == 1
    assert len(levels(open_source(str(tmp_path / file.name)))) == 6
