"""A stream over a pair of file descriptors: pipes, sockets, a terminal, files.

The stream needs no threads, because it waits until a descriptor is ready. Where the event loop cannot wait for a
descriptor (Windows), `acp_server.agent.threaded_stream` is used. `acp_server.agent.process` decides which descriptors
to use.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

import anyio
import anyio.lowlevel
from sniffio import current_async_library_cvar

_READ_SIZE: Final = 64 * 1024
_LARGEST_READ: Final = 1024 * 1024
"""A read of this size costs 15 us more than a read of 64 KiB, since it allocates more. It is used only while reads fill
the buffer."""

_GONE: Final = {errno.EPIPE, errno.ECONNRESET} | ({errno.EINVAL} if sys.platform == "win32" else set[int]())

_TERMINAL_WRITE: Final = 256
"""The number of bytes that a terminal accepts without blocking once it is ready."""

_NESTED: Final = 0.02
"""Seconds after which to check whether the loop runs nested within the reading callback. All reads in that time share
one check, because a timer costs the loop 2 us of CPU for each round in which it waits."""


class FdStream:
    """A stream (see `acp_server.peer.stream.Stream`) over two descriptors. The caller owns them, and they may be the
    same descriptor.

    Reading changes nothing about the descriptor. A pipe or socket for writing is set to O_NONBLOCK. That flag belongs
    to the open file and so to every process that shares the file; `aclose` restores it. A terminal is never set to
    O_NONBLOCK, because the shell shares it.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._input = _Input(source)
        self._output = _Output(sink)
        self.send_now: Final[Callable[[bytes], int]] = self._output.send_now
        """See `acp_server.peer.stream.ImmediateStream`."""
        self._hangup = Hangup(sink)
        self._silent: anyio.Event | None = None
        self.problem: OSError | None = None
        """Why writing failed; None if it failed because the client is gone."""

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        if self._silent is not None and not self._input.is_ready:
            self._silent.set()
        return await self._input.receive()

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        """See `acp_server.peer.stream.FeedingStream`."""
        if self._silent is not None and not self._input.is_ready:
            self._silent.set()
        await self._input.feed(take)

    async def unread(self) -> None:
        """Wait until the client can no longer read what is sent, although the input is open.

        Data that has arrived, and the end of input, are received first. The system cannot report this for files,
        terminals and, without epoll, sockets. There, this call does not return, and `send` fails instead.
        """
        await self._hangup.wait()
        if self._input.is_ready:
            self._silent = anyio.Event()
            await self._silent.wait()

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        try:
            await self._output.send(data)
        except OSError as error:
            self.problem = None if is_gone(error) else error
            raise

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        self._input.close()
        self._output.close()
        self._hangup.close()


def is_gone(error: OSError) -> bool:
    """Whether a write failed because the reading end is closed. This is how most clients end."""
    return error.errno in _GONE


def _can_wait(fd: int) -> bool:
    """Whether the event loop can wait for the descriptor. It cannot wait for files and `/dev/null`, which are always
    ready."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _is_ready(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


class _Input:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._can_wait = _can_wait(fd)
        self._size = _READ_SIZE
        self._closed = False
        self._watch: _Watch | None = None

    async def receive(self) -> bytes:
        if self._closed:
            raise anyio.ClosedResourceError
        if not self._can_wait:
            # Without it, a file would keep other tasks from running.
            await anyio.lowlevel.checkpoint()
            return self._read()
        if (watch := self._watched()) is not None:
            return await watch.receive()
        while True:
            await anyio.wait_readable(self._fd)
            try:
                return self._read()
            except BlockingIOError:
                pass  # another process that shares it has read the data

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        if self._can_wait and not self._closed and (watch := self._watched()) is not None:
            await watch.feed(take)
        else:
            while take(await self.receive()):
                pass

    def _watched(self) -> _Watch | None:
        if self._watch is None:
            loop: Any = anyio.lowlevel.current_token().native_token
            if hasattr(loop, "add_reader"):
                self._watch = _Watch(loop, self._fd, self._read)
        return self._watch

    @property
    def is_ready(self) -> bool:
        """Whether there is data to read now, or the end of input."""
        return not self._can_wait or self._closed or _is_ready(self._fd)

    def close(self) -> None:
        self._closed = True
        if self._watch is not None:
            self._watch.close()

    def _read(self) -> bytes:
        data = os.read(self._fd, self._size)
        self._size = min(self._size * 4, _LARGEST_READ) if len(data) == self._size else _READ_SIZE
        return data


class _Watch:
    """Reads in a callback that stays registered in the asyncio loop between messages.

    With one request at a time, a request costs 43 us of CPU this way, and 62 us with `anyio.wait_readable`, which
    registers for each read (CPython 3.11, an echo through `acp_server.peer.connection`). Trio has no such callback and
    needs none.
    """

    def __init__(self, loop: Any, fd: int, read: Callable[[], bytes]) -> None:
        self._loop = loop
        self._fd = fd
        self._read = read
        self._armed = False
        self._take: Callable[[bytes], bool] = self._keep
        self._kept: bytes | None = None
        self._waiting: Any = None
        """The future of the waiting caller; None while no caller waits."""
        self._taking = False
        self._look: Any = None
        """The timer of the next check for a nested loop, if one is scheduled."""

    async def receive(self) -> bytes:
        await self.feed(self._keep)
        data, self._kept = self._kept, None
        assert data is not None
        return data

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        # Bytes that arrived when the caller of `receive` was being cancelled.
        if (kept := self._kept) is not None:
            self._kept = None
            if not take(kept):
                return
        if not self._armed:
            self._armed = True
            # The bytes are handled in the callback, where code that looks up the running event loop needs this
            # variable.
            context = copy_context()
            context.run(current_async_library_cvar.set, "asyncio")
            context.run(self._loop.add_reader, self._fd, self._ready)
            # Bytes that arrived while the program did not read are read at once: the loop would take three rounds to
            # report them. Later reads are up to the loop, so that a peer that sends without pause cannot block other
            # tasks.
            if _is_ready(self._fd):
                with suppress(BlockingIOError):
                    if not take(self._read()):
                        return
        self._take = take
        self._waiting = self._loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def close(self) -> None:
        if self._armed:
            self._armed = False
            self._loop.remove_reader(self._fd)
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _keep(self, data: bytes) -> bool:
        self._kept = data
        return False

    def _ready(self) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            # The program does not read, so nothing is read: backpressure for the peer.
            self.close()
            return
        if self._look is None:
            self._look = self._loop.call_later(_NESTED, self._look_for_nesting)
        self._taking = True
        try:
            # Handling the bytes may cancel the waiting task.
            if not self._take(self._read()) and not waiting.done():
                waiting.set_result(None)
        except BlockingIOError:
            pass
        except BaseException as error:
            if waiting.done():
                raise
            waiting.set_exception(error)
        finally:
            self._taking = False

    def _look_for_nesting(self) -> None:
        """Make the caller of `feed` register again if the loop runs nested within `_ready`. A handler may run the loop
        in its first step (`nest_asyncio`). Meanwhile the loop cannot call `_ready` again, since its context is
        entered."""
        self._look = None
        if self._taking:
            self.close()
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)


class _Output:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._can_wait = _can_wait(fd)
        self._closed = False
        self._at_once: int | None = None
        """The most bytes of one write; None for no limit."""
        self._restore = False
        if os.isatty(fd):
            self._at_once = _TERMINAL_WRITE
        elif self._can_wait and os.get_blocking(fd):
            os.set_blocking(fd, False)
            self._restore = True

    async def send(self, data: bytes) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        if self._at_once is None:
            try:
                written = os.write(self._fd, data)
            except BlockingIOError:
                written = 0
            if written == len(data):
                return
        else:
            written = 0
        rest = memoryview(data)[written:]
        while rest:
            if self._can_wait:
                await anyio.wait_writable(self._fd)
            else:
                await anyio.lowlevel.checkpoint()
            if self._closed:
                raise anyio.ClosedResourceError
            try:
                rest = rest[os.write(self._fd, rest[: self._at_once]) :]
            except BlockingIOError:
                pass

    def send_now(self, data: bytes) -> int:
        # A terminal could block. A file's errors must be raised where they are awaited.
        if self._closed or not self._can_wait or self._at_once is not None:
            return 0
        try:
            return os.write(self._fd, data)
        except OSError:
            return 0

    def close(self) -> None:
        self._closed = True
        if self._restore:
            self._restore = False
            os.set_blocking(self._fd, True)


class Hangup:
    """Notices when the other end of the pipe or socket `fd` hangs up. The caller owns `fd`. For terminals and files see
    `wait`."""

    def __init__(self, fd: int) -> None:
        mode = os.fstat(fd).st_mode
        self._epoll: Final = _epoll(fd) if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None
        # Without epoll, at least for a pipe: its writing end becomes readable when its last reader is closed. A socket
        # also becomes readable when data arrives, which would be reported again and again.
        self._fd: Final = fd if self._epoll is None and stat.S_ISFIFO(mode) and not hasattr(select, "epoll") else -1

    async def wait(self) -> None:
        """Wait until the other end is closed. Never returns where that cannot be noticed."""
        if self._epoll is not None:
            await anyio.wait_readable(self._epoll.fileno())
        elif self._fd >= 0:
            await anyio.wait_readable(self._fd)
        else:
            await anyio.sleep_forever()

    def close(self) -> None:
        """Close the epoll. Idempotent. Must not be called while a task waits."""
        if self._epoll is not None:
            self._epoll.close()


def _epoll(fd: int) -> select.epoll | None:
    if not hasattr(select, "epoll"):
        return None
    # The loops of asyncio and trio wait for bytes or for room, and neither is wanted here. Its own epoll, which they
    # can wait on, reports only errors and hang-ups. A socket whose other end has only stopped writing does not hang up.
    epoll = select.epoll()
    epoll.register(fd, 0)
    return epoll
