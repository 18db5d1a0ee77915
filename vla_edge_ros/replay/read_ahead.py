# SPDX-License-Identifier: Apache-2.0
"""Decoding ahead in a thread of its own, so that it never delays a tick."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Keeps up to ``depth`` items of ``items`` ready.

    Threads: the reader alone iterates ``items`` and appends; one consumer takes. ``deque`` makes both ends
    atomic, the semaphore counts free places, so neither side ever holds a lock while the other works.
    """

    def __init__(self, items: Iterator[T], depth: int = 8):
        self._items = items
        self._ready: deque[T] = deque()
        self._free = threading.Semaphore(depth)
        self._something_ready = threading.Event()
        self._stop = threading.Event()
        self._ended = False  # written by the reader, after its last append
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._read, name="replay_reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the reader, in the middle of a pass if need be; safe to call twice, and without ``start``."""
        self._stop.set()
        self._free.release()
        self._something_ready.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait_ready(self) -> None:
        """Wait until the first item is there, or there will be none."""
        self._something_ready.wait()

    def take(self) -> T | None:
        """The next item, None where none is ready now; never waits."""
        try:
            item = self._ready.popleft()
        except IndexError:
            return None
        self._free.release()
        return item

    def is_over(self) -> bool:
        """Whether every item has been taken. Raises what ended the reader, if it was an error."""
        # Read in this order: the reader appends first and sets the flag last.
        over = self._ended and not self._ready
        if over and self._error is not None:
            raise self._error
        return over

    def _read(self) -> None:
        try:
            while True:
                self._free.acquire()
                if self._stop.is_set():
                    return
                item = next(self._items, None)
                if item is None:
                    return
                self._ready.append(item)
                self._something_ready.set()
        except BaseException as error:  # handed to the consumer, which must not wait for ever
            self._error = error
        finally:
            self._items = iter(())  # a pass that is left in the middle closes its file here
            self._ended = True
            self._something_ready.set()
