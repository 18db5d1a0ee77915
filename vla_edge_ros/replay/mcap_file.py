# SPDX-License-Identifier: Apache-2.0
"""One MCAP file as topics and messages, whatever of the format its writer left out.

All but the records themselves is optional in MCAP: chunks, each kind of index, statistics, the copies of
channels and schemas at the end, the end itself where a recorder was killed. With a complete index the file
is read in the order of its log times by chunk; else from start to end, once for its topics and once a pass.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcap.reader import SeekingReader
from mcap.records import Channel, Chunk, Message, Schema
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.summary import Summary

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.base import LOGGER
from vla_edge_ros.replay.topic import Topic

MAGIC = b"\x89MCAP0\r\n"
_COMPRESSIONS = ("", "lz4", "zstd")
_FOOTER = struct.Struct("<9xQQI")  # after opcode and length: start of the summary, of its offsets, checksum
_CHECKSUM_BYTES = 4


class McapFile:
    """``topics``: every channel, also what cannot be read. ``damage``: why it is not whole, or empty."""

    def __init__(self, path: Path):
        self._path = path
        self.damage = ""
        summary = _complete_summary(path)
        self._is_indexed = summary is not None
        if summary is None or summary.statistics is None:
            LOGGER.info("%s: has no complete index; reading it from start to end for its topics", path)
            channels, schemas, counts = self._scan()
        else:
            channels, schemas = summary.channels, summary.schemas
            counts = Counter(summary.statistics.channel_message_counts)
        self._ids: dict[Topic, set[int]] = {}
        for channel in channels.values():
            schema = schemas.get(channel.schema_id)
            topic = Topic(channel.topic, schema.name if schema else "", channel.message_encoding)
            self._ids.setdefault(topic, set()).add(channel.id)
        self.topics = list(self._ids)
        self._counts = counts

    def has_messages(self, topic: Topic) -> bool:
        return any(self._counts[channel] for channel in self._ids.get(topic, ()))

    def messages(self, topic: Topic) -> Iterator[tuple[int, bytes]]:
        """``(log time in ns, data)``; by log time where an index tells it, else as they were written.

        Raises ``SourceError`` at damage that ``damage`` does not tell of.
        """
        ids = self._ids.get(topic, set())
        with self._path.open("rb") as file:
            for message in self._indexed(file, topic) if self._is_indexed else self._records(file):
                if isinstance(message, Message) and message.channel_id in ids:
                    yield message.log_time, message.data

    def close(self) -> None:
        """Each pass closes the file that it opened."""

    def _indexed(self, file: Any, topic: Topic) -> Iterator[Any]:
        reader = SeekingReader(file, validate_crcs=True, record_size_limit=self._path.stat().st_size)
        try:
            for _, _, message in reader.iter_messages(topics=[topic.name]):
                yield message
        except Exception as error:  # the parser raises whatever broken bytes lead it to
            raise SourceError(str(error) or type(error).__name__) from None

    def _scan(self) -> tuple[dict[int, Channel], dict[int, Schema], Counter[int]]:
        channels: dict[int, Channel] = {}
        schemas: dict[int, Schema] = {}
        counts: Counter[int] = Counter()
        with self._path.open("rb") as file:
            for record in self._records(file):
                if isinstance(record, Channel):
                    channels[record.id] = record
                elif isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Message):
                    counts[record.channel_id] += 1
        return channels, schemas, counts

    def _records(self, file: Any) -> Iterator[Any]:
        """All records up to the end or the damage, of which ``damage`` then tells; a chunk's by log time.

        Raises ``SourceError`` where not one record can be read.
        """
        # A length that damage made must not make a reader ask for gigabytes.
        size = self._path.stat().st_size
        reader = StreamReader(file, emit_chunks=True, validate_crcs=True, record_size_limit=size)
        is_empty = True
        try:
            for record in reader.records:
                is_empty = False
                if isinstance(record, Chunk):
                    _check_compression(record.compression)
                    inside = breakup_chunk(record, validate_crc=True)
                    yield from sorted(inside, key=lambda r: r.log_time if isinstance(r, Message) else -1)
                else:
                    yield record
        except SourceError:
            raise
        except Exception as error:  # as above
            self.damage = str(error) or type(error).__name__
            if is_empty:
                raise SourceError(f"not an MCAP file with records ({self.damage})") from None


def _complete_summary(path: Path) -> Summary | None:
    """The index at the end of the file, None where something is missing in it or it cannot be read."""
    with path.open("rb") as file:
        try:
            summary = SeekingReader(file, record_size_limit=path.stat().st_size).get_summary()
            if not _checksum_holds(file):
                return None
        except Exception:  # as above; reading from the start finds out how much is whole
            return None
    if summary is None or summary.statistics is None:
        return None
    statistics, chunks = summary.statistics, summary.chunk_indexes
    used = {*statistics.channel_message_counts, *(each for c in chunks for each in c.message_index_offsets)}
    is_complete = (
        # Some writers count the channels that have messages only.
        used <= summary.channels.keys()
        and len(summary.channels) >= statistics.channel_count
        and all(c.schema_id in summary.schemas for c in summary.channels.values() if c.schema_id)
        and len(chunks) == statistics.chunk_count
        and sum(statistics.channel_message_counts.values()) == statistics.message_count
        # Without chunks there is no index of messages, without message indexes none by topic.
        and all(chunk.message_index_offsets for chunk in chunks)
        and (bool(chunks) or not statistics.message_count)
    )
    if not is_complete:
        return None
    for chunk in chunks:
        _check_compression(chunk.compression)
    return summary


def _checksum_holds(file: Any) -> bool:
    """Whether the summary is as it was written, as far as its writer left a checksum of it."""
    file.seek(-_FOOTER.size - len(MAGIC), io.SEEK_END)
    summary_start, _, checksum = _FOOTER.unpack(file.read(_FOOTER.size))
    end = file.tell() - _CHECKSUM_BYTES
    file.seek(summary_start)
    return not summary_start or not checksum or zlib.crc32(file.read(end - summary_start)) == checksum


def _check_compression(compression: str) -> None:
    if compression not in _COMPRESSIONS:
        raise SourceError(f"chunks must be compressed with lz4, zstd or not at all, got {compression!r}")
