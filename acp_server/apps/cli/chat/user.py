"""The interface to the user of a conversation (`User`). `PlainUser` is the user at a pipe, or at a terminal without the
drawing libraries, who reads and writes line by line.

Text that was typed before a question could be read never answers it.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import FrameType
from typing import Any, Final, Protocol

import anyio
import anyio.lowlevel

from acp_server.agent.signals import Signals
from acp_server.apps.cli.chat.answers import SHOW_ALL, Answers
from acp_server.apps.cli.screen import Screen
from acp_server.schema import AvailableCommand


class User(Protocol):
    """Reads the user's input, and shows events on `screen`."""

    @property
    def screen(self) -> Screen:
        """The output."""
        ...

    def open(self, interrupt: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Enter a block in which the chat owns the terminal. `interrupt` is called for Ctrl-C, in the event loop."""
        ...

    async def read(self) -> str | None:
        """Return the next prompt, which may have been typed ahead; None when the user leaves."""
        ...

    async def choose(self, answers: Answers, show_all: Callable[[], None] | None = None) -> int | None:
        """Return the index of the answer that the user chooses; None for no answer. The question is on the screen
        already. After any other text the user is asked again. `show_all`: shows the whole subject if the screen has
        only a part of it.

        Text that was typed or pasted before the question could be read does not answer it.
        """
        ...

    def waiting(self, what: str | None) -> None:
        """Show what the chat waits for. None means that it no longer waits."""
        ...

    def offer(self, commands: Sequence[AvailableCommand]) -> None:
        """Offer the agent's commands."""
        ...

    async def keep_up(self) -> None:
        """Wait while much of the output is not shown yet."""
        ...

    def take_back(self) -> bool:
        """Take back prompts that were typed ahead, so that they can be edited. Returns whether there were any."""
        ...

    def discard_draft(self) -> bool:
        """Drop the text that was typed and not submitted. Returns whether there was any."""
        ...


if sys.platform == "win32":
    import msvcrt

    def lines_typed_ahead(fd: int) -> bytes:
        """Drop the input that was typed ahead. Windows has no lines to return."""
        while msvcrt.kbhit():
            msvcrt.getwch()
        return b""

    def is_typed_ahead(fd: int) -> bool:
        """Whether there is unread input."""
        return msvcrt.kbhit()

else:
    import termios

    def lines_typed_ahead(fd: int) -> bytes:
        """Consume the input; returns the whole lines. An unfinished line is dropped."""
        lines = b""
        while is_typed_ahead(fd) and (line := os.read(fd, 1 << 16)):
            lines += line
        try:
            termios.tcflush(fd, termios.TCIFLUSH)
        except termios.error:
            pass  # the terminal is gone, as the next reading will find
        return lines

    def is_typed_ahead(fd: int) -> bool:
        """Whether there is unread input. In a terminal that edits lines, only a whole line counts."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(0))


_INPUT: Final = 0
_AT_ONCE: Final = 1 << 16
_LONGEST: Final = 1 << 24
"""The most characters of a line. A longer line is cut into several lines."""

PAUSE: Final = 0.5
"""Seconds between a question and the first accepted answer. A user who is typing at that moment does not mean the
question."""


class PlainUser:
    """Standard input and output.

    At a terminal, lines that were typed before a question are later prompts, and an unfinished line is dropped. With a
    pipe there is no such distinction: its next line answers.
    """

    def __init__(self) -> None:
        self.screen: Screen = Screen()
        self._lines = _Lines()
        self._is_terminal = os.isatty(_INPUT)

    @asynccontextmanager
    async def open(self, interrupt: Callable[[], None]) -> AsyncGenerator[None]:
        """See `User`. Ctrl-C is a signal here, which the caller handles."""
        try:
            yield
        finally:
            self.screen.fresh()

    async def read(self) -> str | None:
        """See `User`."""
        self._ask("> ")
        line = await self._lines.next()
        if line is None:
            self.screen.line()
        return line

    async def choose(self, answers: Answers, show_all: Callable[[], None] | None = None) -> int | None:
        """See `User`."""
        if self._is_terminal:
            await anyio.sleep(PAUSE)
            self._lines.put_by(lines_typed_ahead(_INPUT))
        while True:
            self._ask(answers.hint(is_cut=show_all is not None))
            line = await self._lines.next(put_by=False)
            if line is None:
                self.screen.line()
            if line is None or not line.strip():
                return None
            if show_all is not None and line.strip().lower() == SHOW_ALL:
                show_all()
            if (answer := answers.read(line)) is not None:
                return answer

    def waiting(self, what: str | None) -> None:
        """See `User`."""
        if what is not None and self._is_terminal and what != "working":
            self.screen.line(f"{what} ...", dim=True)

    def offer(self, commands: Sequence[AvailableCommand]) -> None:
        """See `User`. The screen shows commands as they are announced."""

    async def keep_up(self) -> None:
        """See `User`. There is nothing to wait for, because each write has waited already."""

    def take_back(self) -> bool:
        """See `User`. There is nothing to take back, because input in the terminal has not been read yet."""
        return False

    def discard_draft(self) -> bool:
        """See `User`. Returns False, because the terminal holds the unfinished line."""
        return False

    def _ask(self, text: str) -> None:
        self.screen.fresh()
        self.screen.say(text)
        self.screen.at_line_start()


class _Lines:
    """Lines of standard input, read by a thread on demand.

    The thread outlives a cancelled reader, and keeps its line for the next reader. It reads the descriptor itself. If
    it held a lock of `sys.stdin` at the end of the program, that would be fatal.
    """

    def __init__(self) -> None:
        self._put_by: deque[str] = deque()
        self._ready: deque[str] = deque()
        self._rest = b""
        self._ended = False
        self._reading = False
        self._arrived = anyio.Event()

    def put_by(self, lines: bytes) -> None:
        """Keep lines as prompts, so that they answer no question."""
        *whole, self._rest = (self._rest + lines).split(b"\n")
        self._put_by.extend([*self._ready, *map(_text, whole)])
        self._ready.clear()
        self._rest = b""

    async def next(self, *, put_by: bool = True) -> str | None:
        """Return the next line; None at the end of the input. `put_by`: the lines that were kept as prompts come
        first."""
        if put_by and self._put_by:
            return self._put_by.popleft()
        while not self._ready:
            if self._ended:
                rest, self._rest = self._rest, b""
                return _text(rest) if rest else None
            if not self._reading:
                self._start()
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._ready.popleft()

    def _start(self) -> None:
        self._reading = True
        loop: Any = anyio.lowlevel.current_token().native_token
        soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

        def read() -> None:
            try:
                data = os.read(_INPUT, _AT_ONCE)
            except OSError:
                data = b""
            try:
                soon(partial(self._take, data))
            except RuntimeError:
                pass  # the loop is gone, and with it the task that wanted the line

        threading.Thread(target=read, name="acp_server input", daemon=True).start()

    def _take(self, data: bytes) -> None:
        self._reading = False
        self._ended = not data
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._ready.extend(map(_text, whole))
        if len(self._rest) > _LONGEST:
            self._ready.append(_text(self._rest))
            self._rest = b""
        self._arrived.set()


class Interrupts(Signals):
    """The signals of a chat. If there is a third Ctrl-C that the event loop has not handled, the program ends
    immediately."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self._unheard = 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # In the signal handler: the loop may be blocked in a write to a terminal that does not read.
        self._unheard += number == signal.SIGINT
        if self._unheard > 2:
            raise KeyboardInterrupt
        super()._handle(number, frame)

    async def deliver(self, act: Callable[[int], None]) -> None:
        """See `Signals`."""

        def heard(number: int) -> None:
            self._unheard = 0
            act(number)

        await super().deliver(heard)


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def readable(text: str) -> str:
    """Return `text` with a mark in place of each byte that was not UTF-8. Python keeps such a byte as half of a
    surrogate pair, which some readers of JSON reject."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").removesuffix("\r")
