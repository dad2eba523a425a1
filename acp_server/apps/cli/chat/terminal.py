"""Shows the chat to the user of a terminal that is drawn on. The prompt stays at the bottom, with the output above it.

`acp_server.apps.cli.chat.typed` interprets the keys, and decides whether they answer a question.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
from prompt_toolkit import ANSI, PromptSession
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.output.vt100 import Vt100_Output

from acp_server.apps.cli.chat.answers import Answers
from acp_server.apps.cli.chat.live_screen import LiveScreen
from acp_server.apps.cli.chat.typed import Commands, OwnHistory, TypedInput
from acp_server.apps.cli.chat.user import readable
from acp_server.schema import AvailableCommand

_FRAME: Final = 0.04
"""The least number of seconds between two drawings."""
_TICK: Final = 0.1
_MOST_WAITING: Final = 1 << 18
"""The most characters that may wait to be drawn. Beyond this the agent has to wait (backpressure)."""


class TerminalUser:
    """Draws the contents of `screen` with prompt_toolkit."""

    def __init__(self) -> None:
        self._news = anyio.Event()
        self.screen: LiveScreen = LiveScreen(self._changed, self._size)
        self._typed = TypedInput()
        self.screen.queued = self._typed.submitted
        self._commands = Commands()
        self._drawn = anyio.Event()
        self._prompt: PromptSession[str] = PromptSession(
            self._message,
            multiline=True,
            history=OwnHistory.open(),
            completer=self._commands,
            complete_while_typing=Condition(lambda: self._prompt.default_buffer.text.startswith("/")),
            reserve_space_for_menu=5,
            enable_suspend=True,
            key_bindings=self._typed.bindings(),
            prompt_continuation="  ",
            erase_when_done=True,
            output=_output(),
        )
        self._prompt.app.key_processor.before_key_press += self._typed.key_pressed

    # -- for the conversation

    @asynccontextmanager
    async def open(self, interrupt: Callable[[], None]) -> AsyncGenerator[None]:
        """See `User`."""
        self._typed.interrupt = interrupt
        before, logging.lastResort = logging.lastResort, _ScreenLog(self.screen)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._run)
                tasks.start_soon(self._draw)
                tasks.start_soon(self._tick)
                try:
                    yield
                finally:
                    self.screen.turn_over()
                    self._write()
                    tasks.cancel_scope.cancel()
        finally:
            logging.lastResort = before

    async def read(self) -> str | None:
        """See `User`."""
        text = await self._typed.next_prompt()
        if text is None:
            return None
        text = readable(text)
        first, *others = text.split("\n")
        self.screen.line(f"> {first}", bold=True)
        for other in others:
            self.screen.line(f"  {other}", bold=True)
        return text

    async def choose(self, answers: Answers, show_all: Callable[[], None] | None = None) -> int | None:
        """See `User`."""
        self._write()
        question = self._typed.ask(answers, is_cut=show_all is not None)
        try:
            while not question.is_answered:
                await self._typed.quiet()
                question.take_keys()
                self._changed()
                await question.changed.wait()
                if show_all is not None and question.wants_all:
                    question.wants_all = False
                    show_all()
                    self._write()
            return question.answer
        finally:
            self._typed.question = None
            self._changed()

    def waiting(self, what: str | None) -> None:
        """See `User`."""
        self.screen.status(what)

    def offer(self, commands: Sequence[AvailableCommand]) -> None:
        """See `User`."""
        self._commands.known = list(commands)

    async def keep_up(self) -> None:
        """See `User`."""
        while self.screen.waiting_bytes > _MOST_WAITING:
            await self._drawn.wait()

    def take_back(self) -> bool:
        """See `User`."""
        if not self._typed.submitted:
            return False
        buffer = self._prompt.default_buffer
        buffer.text = "\n".join([*self._typed.submitted, *([buffer.text] if buffer.text else [])])
        buffer.cursor_position = len(buffer.text)
        self._typed.submitted.clear()
        return True

    def discard_draft(self) -> bool:
        """See `User`."""
        buffer = self._prompt.default_buffer
        there = bool(buffer.text)
        buffer.reset()
        return there

    # -- drawing

    async def _run(self) -> None:
        # Ctrl-C is a key while this runs. Signals are handled by the conversation.
        await self._prompt.app.run_async(handle_sigint=False)

    async def _draw(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            self._write()
            await anyio.sleep(_FRAME)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(_TICK)
            if self.screen.moves:
                self._prompt.app.invalidate()

    def _write(self) -> None:
        """Write the lines that stay above the prompt, and redraw the prompt."""
        app = self._prompt.app
        text = self.screen.take()
        if text:
            if app.is_running:
                app.renderer.erase()
            app.output.write_raw(text)
            app.output.flush()
            app.renderer.reset()
        app.invalidate()
        self._drawn.set()
        self._drawn = anyio.Event()

    def _changed(self) -> None:
        self._news.set()

    def _size(self) -> tuple[int, int]:
        size = self._prompt.app.output.get_size()
        return size.columns, size.rows

    def _message(self) -> ANSI:
        asked = ""
        question = self._typed.question
        if question is not None and question.takes_keys:
            hint = question.answers.hint(is_cut=question.is_cut, may_be_none=not self._prompt.default_buffer.text)
            asked = self.screen.painted(f"{question.remark}{hint}{question.typed}\n")
        return ANSI(f"{self.screen.live()}{asked}> ")


class _ScreenLog(logging.Handler):
    """Shows log records on the screen."""

    def __init__(self, screen: LiveScreen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging`."""
        self._screen.line(f"{record.levelname} {record.getMessage()}", dim=True)


def _output() -> Vt100_Output | None:
    if sys.platform == "win32":
        return None
    # The terminal's answer to a question for the cursor's position would be read as typing.
    return Vt100_Output(sys.stdout, _terminal_size, term=os.environ.get("TERM"), enable_cpr=False)


def _terminal_size() -> Size:
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return Size(rows=rows or 24, columns=columns or 80)
