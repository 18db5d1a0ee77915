# SPDX-License-Identifier: Apache-2.0
"""Damage to a file's bytes as disks, networks, editors and malice do it; the same seed does the same."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

# Lengths, counts and offsets at which parsers break.
NUMBERS = (
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    256,
    4096,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63,
)


def _flip_bit(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] = random.choice((0, 0xFF, 0x7F, 0x80, random.randrange(256)))


def _write_number(data: bytearray, random: Random) -> None:
    size, order = random.choice((1, 2, 4, 8)), random.choice(("little", "big"))
    at = random.randrange(len(data))
    number = random.choice((random.choice(NUMBERS), -random.choice(NUMBERS), random.getrandbits(64)))
    data[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, order)[: len(data) - at]


def _nudge_number(data: bytearray, random: Random) -> None:
    """A count that is one too many is a likelier fault than one that is absurd."""
    at = random.randrange(len(data))
    code = random.choice(("<B", "<H", ">H", "<I", ">I", "<Q"))
    size = struct.calcsize(code)
    if at + size <= len(data):
        (number,) = struct.unpack_from(code, data, at)
        struct.pack_into(code, data, at, (number + random.choice((-8, -2, -1, 1, 2, 8))) % 2 ** (8 * size))


def _some_range(data: bytearray, random: Random) -> slice:
    at = random.randrange(len(data))
    return slice(at, min(len(data), at + random.randrange(1, 1 + (1 << random.randrange(1, 16)))))


def _cut(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def _delete(data: bytearray, random: Random) -> None:
    del data[_some_range(data, random)]


def _repeat(data: bytearray, random: Random) -> None:
    piece = data[_some_range(data, random)]
    at = random.randrange(len(data) + 1)
    data[at:at] = piece


def _overwrite(data: bytearray, random: Random) -> None:
    where = _some_range(data, random)
    size = where.stop - where.start
    data[where] = random.choice((bytes(size), b"\xff" * size, random.randbytes(size)))


def _insert(data: bytearray, random: Random) -> None:
    at, size = random.randrange(len(data) + 1), random.choice((1, 2, 4, 8, 64, 1000))
    data[at:at] = random.choice((bytes(size), random.randbytes(size)))


def _swap(data: bytearray, random: Random) -> None:
    first, second = _some_range(data, random), _some_range(data, random)
    data[first], data[second] = data[second], data[first]


KINDS: tuple[Callable[[bytearray, Random], None], ...] = (
    _flip_bit,
    _set_byte,
    _write_number,
    _nudge_number,
    _cut,
    _delete,
    _repeat,
    _overwrite,
    _insert,
    _swap,
)


def mutate(data: bytes, random: Random) -> bytes:
    """``data`` damaged in one to eight places, mostly one or two; at most twice as long and 8 KiB."""
    damaged = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 1, 2, 2, 3, 5, 8))):
        if damaged:
            random.choice(KINDS)(damaged, random)
    return bytes(damaged[: 2 * len(data) + 8192])


def shrink(data: bytes, still_fails: Callable[[bytes], bool], tries: int = 60) -> bytes:
    """A smaller input for which ``still_fails``: ever smaller pieces are left out, as far as ``tries`` go."""
    size = len(data) // 2
    while size and tries:
        at = 0
        while at < len(data) and tries:
            candidate = data[:at] + data[at + size :]
            tries -= 1
            if still_fails(candidate):
                data = candidate
            else:
                at += size
        size //= 2
    return data
