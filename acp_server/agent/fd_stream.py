"""Bytes through a pair of file descriptors, whatever they are: pipes, sockets, a terminal, files.

Without threads: it waits until a descriptor is ready. Where that cannot be waited for (Windows),
`acp_server.agent.threaded_stream` stands in. Whose descriptors they are is decided in `acp_server.agent.process`.
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
"""A read of this size costs 15 us more than one of 64 KiB, for its memory; it pays only while it is being filled."""

_GONE: Final = {errno.EPIPE, errno.ECONNRESET} | ({errno.EINVAL} if sys.platform == "win32" else set[int]())

_TERMINAL_WRITE: Final = 256
"""Bytes that a terminal takes without blocking once it says that it is ready."""

_NESTED: Final = 0.02
"""Seconds after which to look whether the loop runs within a callback that reads. All that is read meanwhile shares one
look. A loop with a timer takes 2 us of CPU more for each round in which it waits."""


class FdStream:
    """The stream (see `acp_server.peer.stream.Stream`) over two descriptors, which may be one and stay the caller's.

    Reading changes nothing about the descriptor. A pipe or socket is written to with O_NONBLOCK, which belongs to the
    open file and so to every process that shares it. `aclose` restores what it was. A terminal, which the shell shares,
    never gets it.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._input = _Input(source)
        self._output = _Output(sink)
        self.send_now: Final[Callable[[bytes], int]] = self._output.send_now
        """See `acp_server.peer.stream.ImmediateStream`."""
        self._hangup = Hangup(sink)
        self._silent: anyio.Event | None = None
        self.problem: OSError | None = None
        """Why nothing more could be written, if it is not that the client has gone."""

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
        """Wait until the client can read no more of what is sent, although the input is open.

        What has arrived, the end of the input included, is for `receive` first. Where the system does not tell (files,
        terminals, sockets without epoll), it is up to `send` to find out.
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
    """Whether a write failed because the reading end is closed, which is how a client ends things."""
    return error.errno in _GONE


def _can_wait(fd: int) -> bool:
    """Whether the event loop can tell when it is ready. Files and `/dev/null` always are, and cannot be waited for."""
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
            # Else a file would keep the loop to itself.
            await anyio.lowlevel.checkpoint()
            return self._read()
        if (watch := self._watched()) is not None:
            return await watch.receive()
        while True:
            await anyio.wait_readable(self._fd)
            try:
                return self._read()
            except BlockingIOError:
                pass  # another process that shares it was quicker

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
        """Whether there is something to read now, be it the end."""
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
    """Reads in a callback of an asyncio loop that stays registered from one message to the next.

    A request at a time costs 43 us of CPU this way and 62 with `anyio.wait_readable`, which registers anew for each
    (CPython 3.11, an echo through `acp_server.peer.connection`). Trio has no such callback, and needs none.
    """

    def __init__(self, loop: Any, fd: int, read: Callable[[], bytes]) -> None:
        self._loop = loop
        self._fd = fd
        self._read = read
        self._armed = False
        self._take: Callable[[bytes], bool] = self._keep
        self._kept: bytes | None = None
        self._waiting: Any = None
        """The future of the caller that waits, if one does."""
        self._taking = False
        self._look: Any = None
        """The timer of the next look, if there will be one."""

    async def receive(self) -> bytes:
        await self.feed(self._keep)
        data, self._kept = self._kept, None
        assert data is not None
        return data

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        # They came in the moment in which the caller of `receive` was cancelled.
        if (kept := self._kept) is not None:
            self._kept = None
            if not take(kept):
                return
        if not self._armed:
            self._armed = True
            # What is done about the bytes may ask which event loop runs, and in a callback that has to be said.
            context = copy_context()
            context.run(current_async_library_cvar.set, "asyncio")
            context.run(self._loop.add_reader, self._fd, self._ready)
            # What came while the program did not ask is read at once: to hear of it from the loop takes three
            # rounds. After that it is the loop's turn, so that a peer that always sends does not keep it.
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
            # The program asks for nothing, so nothing is read: the peer is to feel that.
            self.close()
            return
        if self._look is None:
            self._look = self._loop.call_later(_NESTED, self._look_for_nesting)
        self._taking = True
        try:
            # What is done about the bytes may cancel the task that waits.
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
        """A handler may run the loop in its first step (`nest_asyncio`), which is within `_ready`. The loop cannot call
        that a second time meanwhile: its context is entered. So the caller is to feed anew."""
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
        """How much may be written in one go, or None for any amount."""
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
        # A terminal could block. What is not a pipe or socket must have a chance to fail where that is awaited.
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
    """Of the pipe or socket `fd`, which stays the caller's. Terminals and files have none; see `wait`."""

    def __init__(self, fd: int) -> None:
        mode = os.fstat(fd).st_mode
        self._epoll: Final = _epoll(fd) if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None
        # Without epoll, a pipe at least: its writing end becomes readable when its last reader goes. A socket also does
        # when something arrives, and that would be noticed over and over again.
        self._fd: Final = fd if self._epoll is None and stat.S_ISFIFO(mode) and not hasattr(select, "epoll") else -1

    async def wait(self) -> None:
        """Return when the other end is closed. Where that cannot be noticed, never."""
        if self._epoll is not None:
            await anyio.wait_readable(self._epoll.fileno())
        elif self._fd >= 0:
            await anyio.wait_readable(self._fd)
        else:
            await anyio.sleep_forever()

    def close(self) -> None:
        """Let go of what it takes. Idempotent; not while something waits."""
        if self._epoll is not None:
            self._epoll.close()


def _epoll(fd: int) -> select.epoll | None:
    if not hasattr(select, "epoll"):
        return None
    # The loops of asyncio and trio wait for bytes or for room, and here is neither to be waited for: an epoll of its
    # own, which they can wait for, tells of errors and hang-ups alone. A socket whose other end only writes no more
    # hangs up neither.
    epoll = select.epoll()
    epoll.register(fd, 0)
    return epoll
