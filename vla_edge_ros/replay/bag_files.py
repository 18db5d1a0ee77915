# SPDX-License-Identifier: Apache-2.0
"""A rosbag2 as its storage files: a recording's folder, or a bare ``.mcap`` or ``.db3``, packed or not.

``metadata.yaml`` gives the files and their order; the rest that it holds stands in the files themselves. So
a recording whose recorder was killed before it wrote that file plays as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Protocol

import yaml

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay import mcap_file, sqlite_file, zstd
from vla_edge_ros.replay.base import LOGGER, WarnOnce
from vla_edge_ros.replay.mcap_file import McapFile
from vla_edge_ros.replay.natural_order import natural_key
from vla_edge_ros.replay.sqlite_file import SqliteFile
from vla_edge_ros.replay.topic import Topic

METADATA = "metadata.yaml"
_OTHER_COMPRESSIONS = {b"\x04\x22\x4d\x18": "lz4", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}


class Storage(Protocol):
    topics: list[Topic]
    damage: str

    def has_messages(self, topic: Topic) -> bool: ...
    def messages(self, topic: Topic) -> Iterator[tuple[int, bytes]]: ...
    def close(self) -> None: ...


class UnpackedFile:
    """A storage file that was compressed as a whole, unpacked into a temporary folder while it is open."""

    def __init__(self, path: Path):
        self._folder = TemporaryDirectory(prefix="vla_edge_ros_bag_")
        LOGGER.info("%s: unpacking into %s", path, self._folder.name)
        try:
            self._file = _open_file(zstd.unpack_file(path, Path(self._folder.name)))
        except BaseException:
            self._folder.cleanup()
            raise
        self.topics, self.damage = self._file.topics, self._file.damage
        self.has_messages, self.messages = self._file.has_messages, self._file.messages

    def close(self) -> None:
        self._file.close()
        self._folder.cleanup()


def open_storages(path: Path, warn: WarnOnce) -> list[Storage]:
    """Every storage file of ``path`` that can be read, in recording order; ``warn`` is told of the others.

    Raises ``SourceError`` where there is none.
    """
    opened: list[Storage] = []
    files, reason = _files_to_play(path)
    refused = reason or "it has no storage file (.mcap, .db3)"
    for file in files:
        try:
            storage = _open_file(file)
        except Exception as error:  # parsers raise whatever broken bytes lead them to
            refused = str(error) or type(error).__name__
            warn(f"{file.name} cannot be read: {refused}")
            continue
        opened.append(storage)
        if storage.damage:
            warn(f"{file.name} is damaged or cut short ({storage.damage}); playing what is whole")
    if not opened:
        raise SourceError(f"source {path} is not a rosbag2 that can be read: {refused}")
    if reason:
        warn(f"is damaged or cut short ({reason}); playing its files in the order of their names")
    return opened


def _files_to_play(path: Path) -> tuple[list[Path], str]:
    """Storage files in recording order, and why they are not those that the metadata names."""
    if path.is_file():
        return [path], ""
    try:
        return _listed_files(path), ""
    except FileNotFoundError:
        reason = f"{METADATA} is missing"
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = f"{METADATA}: {' '.join(str(error).split())}"  # YAML's errors have several lines
    return storage_files(path), reason


def storage_files(path: Path) -> list[Path]:
    """The storage files that lie in ``path``, or that it is, in the order of their names."""
    if path.is_file():
        return [path]
    found = {}
    for suffix in (".mcap.zstd", ".db3.zstd", ".mcap", ".db3"):  # what was unpacked by hand comes first
        found.update({file.name.removesuffix(".zstd"): file for file in path.glob(f"*{suffix}")})
    return [found[name] for name in sorted(found, key=lambda name: natural_key(name, decimals=False))]


def _listed_files(path: Path) -> list[Path]:
    """Raises ``ValueError`` where metadata.yaml does not name files that are there."""
    metadata = yaml.safe_load((path / METADATA).read_text())
    try:
        listed = metadata["rosbag2_bagfile_information"]["relative_file_paths"]
        names = [PurePath(name).name for name in listed]
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks a metadata key: {error}") from None
    files = [_packed_or_not(path / name) for name in names]
    missing = [name for name, file in zip(names, files, strict=True) if not file.exists()]
    if missing:
        raise ValueError(f"it names files that are missing: {', '.join(missing)}")
    if not files:
        raise ValueError("it names no files")
    return files


def _packed_or_not(file: Path) -> Path:
    """``file``, or what it became when somebody packed or unpacked it by hand."""
    unpacked = file.with_suffix("") if file.suffix == ".zstd" else file
    return next((each for each in (unpacked, Path(f"{unpacked}.zstd")) if each.exists()), file)


def _open_file(file: Path) -> Storage:
    with file.open("rb") as opened:
        head = opened.read(16)
    if head.startswith(zstd.MAGIC):
        return UnpackedFile(file)
    if head.startswith(sqlite_file.MAGIC):
        return SqliteFile(file)
    if head.startswith(mcap_file.MAGIC):
        return McapFile(file)
    packed = next((name for magic, name in _OTHER_COMPRESSIONS.items() if head.startswith(magic)), "")
    raise SourceError(
        f"{file.name} must be MCAP or SQLite, packed with zstd or not, got "
        + (f"one packed with {packed}" if packed else f"a file that begins with {head[:8]!r}")
    )
