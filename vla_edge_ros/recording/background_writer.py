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


class BackgroundWriter(Generic[Item]):
    """Hands items to ``write`` in order, in batches, on its own thread.

    At most ``limit`` items wait; with more waiting, new ones are dropped and counted. After a failure (disk
    full, folder gone) nothing more is written: it is logged once, kept in ``error``, and all further items
    count as dropped. ``put`` may be called from any thread and never waits.
    """

    def __init__(self, name: str, write: Callable[[Sequence[Item]], None], limit: int):
        self.error = ""
        self._name = name
        self._write = write
        self._limit = limit
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._dropped_lock = threading.Lock()
        self._dropped = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        return self._dropped

    def put(self, item: Item) -> bool:
        """Queue ``item``; False where it was dropped."""
        if self._closed or self.error or self._queue.qsize() >= self._limit:
            self._drop(1)
            return False
        self._queue.put(item)
        return True

    def close(self) -> None:
        """Write what waits and end the thread; safe to call twice."""
        if not self._closed:
            self._closed = True
            self._queue.put(_CLOSE)
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            batch, open_ = self._next_batch()
            if not batch:
                continue
            if self.error:
                self._drop(len(batch))
                continue
            try:
                self._write(batch)
            except Exception as error:  # recording is never worth a stopped robot; the log has the traceback
                self.error = str(error) or type(error).__name__
                self._drop(len(batch))
                logging.getLogger(__name__).exception("%s stopped", self._name)

    def _next_batch(self) -> tuple[list[Item], bool]:
        """Everything that waits; blocks for the first item. The flag is false after ``close``."""
        batch: list[Item] = []
        item = self._queue.get()
        while True:
            if item is _CLOSE:
                return batch, False
            batch.append(item)
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch, True

    def _drop(self, count: int) -> None:
        with self._dropped_lock:
            self._dropped += count
