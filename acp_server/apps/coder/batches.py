"""Runs a plain generator in a worker thread, slice by slice, and hands on what it yields as it comes.

Between two slices no thread is busy: so a slow consumer holds the generator back, and a consumer that stops
leaves nothing behind. It starts no tasks and knows nothing of what is generated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import Generic, TypeVar

from anyio import from_thread, to_thread

ItemT = TypeVar("ItemT")


# A slice costs some 150 us beside its work (CPython 3.11), so these keep that below one per cent.
SLICE_SECONDS = 0.05
SLICE_ITEMS = 64

STOPPING_SECONDS = 0.03


class Batches(Generic[ItemT]):
    """An asynchronous iterator over what a generator yields, in lists of at most 64, none of them empty.

    The first batch comes as soon as there is one item; a later one when 50 ms of work have passed since the
    last, or when it is full. If the wait for a batch is cancelled, the thread stops at the generator's next
    yield, the generator is closed, and only then the cancellation goes on. An error of the generator is
    raised after what it yielded before.

    Args:
        source: the generator. It should yield None, which the consumer does not see, wherever it works long without an
            item: only where it yields can it be stopped.

    Attributes:
        pending: what was generated and not handed over because the wait was cut.
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
        """From any thread but its own: have the generator go no further. When this returns it does not,
        and `pending` stays as it is, unless it is stuck between two of its yields: that is not waited for."""
        self._stopped = True
        if self._at_work.acquire(timeout=STOPPING_SECONDS):
            self._at_work.release()

    def close(self) -> None:
        """Stop the generator; afterwards the iteration is over. Nothing happens if it is over already."""
        self._stopped = self._ended = True
        try:
            self._source.close()
        except ValueError:
            # It is running: asyncio's own cancellation, unlike anyio's, does not wait for the thread. That
            # will close it.
            pass

    def _work(self) -> None:
        """Run a slice."""
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
