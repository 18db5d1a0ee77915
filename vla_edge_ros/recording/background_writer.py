# SPDX-License-Identifier: Apache-2.0
"""A thread between the control loop and the disk: the loop never waits, what does not fit is counted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
_CLOSE = object()
CLOSE_S = 5.0  # a disk that hangs longer must not keep a stopped robot's process alive


class BackgroundWriter(Generic[Item]):
    """Hands items to ``write`` in order, in batches, on its own thread.

    At most ``limit`` units wait (items, or bytes where ``put`` is told sizes); beyond, new items are dropped
    and counted. After a failure (disk full, folder gone) nothing more is written: it is logged, kept in
    ``error``, and all further items count as dropped. ``put`` may be called from any thread and never waits.
    ``finish`` is called last, on the same thread, to close what ``write`` writes to.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[Item]], None],
        limit: int,
        finish: Callable[[], None] = lambda: None,
    ):
        self.error = ""
        self._name = name
        self._write = write
        self._finish = finish
        self._limit = limit
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._lock = threading.Lock()  # guards the two counters, for nanoseconds, never around a write
        self._dropped = 0
        self._waiting = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        return self._dropped

    def put(self, item: Item, size: int = 1) -> bool:
        """Queue ``item``; False where it was dropped."""
        with self._lock:
            if self._closed or self.error or self._waiting + size > self._limit:
                self._dropped += 1
                return False
            self._waiting += size
            self._queue.put((item, size))
        return True

    def close(self) -> None:
        """Write what waits, finish, end the thread; waits ``CLOSE_S`` at most. Safe to call twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(_CLOSE)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, size, is_open = self._next_batch()
            if batch and not self.error:
                self._attempt(self._write, batch)
            with self._lock:
                self._waiting -= size
                self._dropped += len(batch) if self.error else 0
        self._attempt(self._finish)

    def _attempt(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except Exception as error:  # whatever it is, it is not worth a stopped robot; the log has it
            self.error = self.error or str(error) or type(error).__name__
            logging.getLogger(__name__).exception("%s stopped", self._name)

    def _next_batch(self) -> tuple[list[Item], int, bool]:
        """Everything that waits, and its size; blocks for the first item. False after ``close``."""
        batch: list[Item] = []
        size = 0
        entry = self._queue.get()
        while entry is not _CLOSE:
            batch.append(entry[0])
            size += entry[1]
            try:
                entry = self._queue.get_nowait()
            except Empty:
                return batch, size, True
        return batch, size, False
