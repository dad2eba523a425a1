"""Runs a plain generator in a worker thread, in short runs, and forwards its items as they come.

No thread is busy between two runs. So a slow consumer slows the generator down, and a consumer that stops leaves no
thread behind. This module starts no tasks and does not look at the items.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import Generic, TypeVar

from anyio import from_thread, to_thread

ItemT = TypeVar("ItemT")


# A slice costs some 150 us besides its work (CPython 3.11), so these keep that below one per cent.
SLICE_SECONDS = 0.05
SLICE_ITEMS = 64

STOPPING_SECONDS = 0.03


class Batches(Generic[ItemT]):
    """An asynchronous iterator over a generator's items, in lists of at most 64, none of them empty.

    The first batch has the first item. A later batch comes after 50 ms of work, or when it is full. If the wait for a
    batch is cancelled, the thread stops at the generator's next yield, the generator is closed, and then the
    cancellation continues. An exception of the generator is raised after its items.

    Args:
        source: the generator. A producer that works long without an item should yield None, because it can be stopped
            only at a yield. None is not passed on.

    Attributes:
        pending: items that were generated but not delivered because the wait was cancelled.
    """

    def __init__(self, source: Generator[ItemT | None, None, object]) -> None:
        self._source = source
        self._patience = 0.0
        self._stopped = False
        self._ended = False
        self._error: Exception | None = None
        self._at_work = threading.Lock()
        self.pending: list[ItemT] = []

    def __aiter__(self) -> Batches[ItemT]:
        return self

    async def __anext__(self) -> list[ItemT]:
        while not self._ended:
            try:
                await to_thread.run_sync(self._work)
            except BaseException:
                self.close()
                raise
            if self.pending:
                self._patience = SLICE_SECONDS
                batch, self.pending = self.pending, []
                return batch
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopAsyncIteration

    def stop(self) -> None:
        """Stop the generator. Any thread but the generator's own may call this. When this returns, the generator has
        stopped and `pending` no longer changes. The exception is a generator that is stuck between two yields: this
        does not wait for it."""
        self._stopped = True
        if self._at_work.acquire(timeout=STOPPING_SECONDS):
            self._at_work.release()

    def close(self) -> None:
        """Stop the generator and end the iteration. Idempotent."""
        self._stopped = self._ended = True
        try:
            self._source.close()
        except ValueError:
            # It is running: a native cancel of asyncio, unlike anyio's, does not wait for the thread. The thread will
            # close it.
            pass

    def _work(self) -> None:
        """Run the generator for a short time, and collect its items."""
        with self._at_work:
            begun = time.perf_counter()
            while not self._stopped:
                try:
                    item = next(self._source)
                except StopIteration:
                    self._ended = True
                    return
                except Exception as error:
                    self._error = error
                    self._ended = True
                    return
                if self._stopped:
                    break
                if item is not None:
                    self.pending.append(item)
                from_thread.check_cancelled()
                elapsed = time.perf_counter() - begun
                if elapsed >= (self._patience if self.pending else SLICE_SECONDS) or len(self.pending) >= SLICE_ITEMS:
                    return
            self._ended = True
            self._source.close()
