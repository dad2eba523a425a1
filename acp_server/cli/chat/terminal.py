"""The user at a terminal that is drawn on: a prompt that stays at the bottom, and above it what happens.

The prompt can be typed in at any time. A question takes only keys that are pressed once it has been seen, and after a
pause: everything before that is text for the next prompt.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from prompt_toolkit import ANSI, PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output

from acp_server.cli.chat.live_screen import LiveScreen
from acp_server.cli.chat.user import history_file, is_typed_ahead
from acp_server.cli.screen import hint_of, one_line
from acp_server.schema import AvailableCommand

PAUSE: Final = 0.5
"""Seconds without a key that a question waits for before it takes an answer."""

_FRAME: Final = 0.04
"""Seconds between two drawings, at least."""
_TICK: Final = 0.1
_MOST_WAITING: Final = 1 << 18
"""Characters that may wait to be drawn before the agent has to."""


class TerminalUser:
    """Draws with prompt_toolkit; `screen` says what."""

    def __init__(self) -> None:
        self._news = anyio.Event()
        self.screen = LiveScreen(self._changed, self._size)
        self._submitted: deque[str] = deque()
        self.screen.queued = self._submitted
        self._arrived = anyio.Event()
        self._closed = False
        self._last_key = 0.0
        self._question: _Question | None = None
        self._commands = _Commands()
        self._interrupt: Callable[[], None] = lambda: None
        self._drawn = anyio.Event()
        file = history_file()
        self._prompt: PromptSession[str] = PromptSession(
            self._message,
            multiline=True,
            history=None if file is None else _OwnHistory(str(file)),
            completer=self._commands,
            complete_while_typing=Condition(lambda: self._prompt.default_buffer.text.startswith("/")),
            reserve_space_for_menu=5,
            enable_suspend=True,
            key_bindings=self._keys(),
            prompt_continuation="  ",
            erase_when_done=True,
            output=_output(),
        )
        self._prompt.app.key_processor.before_key_press += self._key_pressed

    # -- for the conversation

    @asynccontextmanager
    async def open(self, interrupt: Callable[[], None]) -> AsyncGenerator[None]:
        """See `User`."""
        self._interrupt = interrupt
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
        while not self._submitted:
            if self._closed:
                return None
            self._arrived = anyio.Event()
            await self._arrived.wait()
        text = self._submitted.popleft()
        first, *others = text.split("\n")
        self.screen.line(f"> {first}", bold=True)
        for other in others:
            self.screen.line(f"  {other}", bold=True)
        return text

    async def choose(self, answers: int) -> int | None:
        """See `User`."""
        self._write()
        question = self._question = _Question(answers)
        self._last_key = time.monotonic()
        try:
            while not question.is_answered:
                await self._quiet()
                question.takes_keys = True
                question.changed = anyio.Event()
                self._changed()
                await question.changed.wait()
            return question.answer
        finally:
            self._question = None
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
        if not self._submitted:
            return False
        buffer = self._prompt.default_buffer
        buffer.text = "\n".join([*self._submitted, *([buffer.text] if buffer.text else [])])
        buffer.cursor_position = len(buffer.text)
        self._submitted.clear()
        return True

    def discard_draft(self) -> bool:
        """See `User`."""
        buffer = self._prompt.default_buffer
        there = bool(buffer.text)
        buffer.reset()
        return there

    # -- drawing

    async def _run(self) -> None:
        # Ctrl-C is a key as long as this runs, and signals are the conversation's.
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
        """Put what stays above the prompt, and have the prompt drawn again."""
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
        if self._question is not None and self._question.takes_keys:
            asked = self.screen.painted(f"    1-{self._question.answers}, or Enter for none: {self._question.typed}\n")
        return ANSI(f"{self.screen.live()}{asked}> ")

    # -- keys

    async def _quiet(self) -> None:
        """Wait until no key has been pressed for a while, and none waits to be looked at."""
        while True:
            rest = self._last_key + PAUSE - time.monotonic()
            if rest > 0:
                await anyio.sleep(rest)
            elif is_typed_ahead(sys.stdin.fileno()):
                await anyio.sleep(_FRAME)
            else:
                return

    def _key_pressed(self, _processor: Any) -> None:
        self._last_key = time.monotonic()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)
        asked = typing & Condition(lambda: self._question is not None and self._question.takes_keys)
        is_empty = Condition(lambda: not self._prompt.default_buffer.text)

        @keys.add("c-c", eager=True)
        def _interrupt(_event: KeyPressEvent) -> None:
            self._interrupt()

        @keys.add("c-d", filter=is_empty)
        def _close(_event: KeyPressEvent) -> None:
            if self._question is not None:
                self._question.decide(None)
                return
            self._closed = True
            self._arrived.set()

        @keys.add("enter", filter=typing & ~asked)
        def _submit(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            text = buffer.text
            if text.strip():
                buffer.append_to_history()
                self._submitted.append(text)
                self._arrived.set()
            buffer.reset()

        @keys.add("escape", "enter", filter=typing)
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("enter", filter=asked)
        def _decide(_event: KeyPressEvent) -> None:
            assert self._question is not None
            self._question.enter()

        @keys.add("backspace", filter=asked)
        def _rub_out(_event: KeyPressEvent) -> None:
            assert self._question is not None
            self._question.typed = self._question.typed[:-1]

        def digit(event: KeyPressEvent) -> None:
            assert self._question is not None
            self._question.typed = (self._question.typed + event.data)[-4:]

        for each in "0123456789":
            keys.add(each, filter=asked)(digit)

        @keys.add(Keys.Any, filter=asked)
        @keys.add(Keys.BracketedPaste, filter=asked)
        def _no_answer(event: KeyPressEvent) -> None:
            # The user writes the next prompt, and may go on with a number.
            assert self._question is not None
            self._question.wait()
            event.current_buffer.insert_text(event.data.replace("\r\n", "\n").replace("\r", "\n"))

        return keys


class _Question:
    """A question that is on the screen, and what has been typed of its answer."""

    def __init__(self, answers: int) -> None:
        self.answers = answers
        self.takes_keys = False
        """Whether keys are its answer; else they are text."""
        self.typed = ""
        self.answer: int | None = None
        self.is_answered = False
        self.changed = anyio.Event()

    def enter(self) -> None:
        """What was typed is the answer, if it is one."""
        if not self.typed:
            self.decide(None)
        elif 1 <= int(self.typed) <= self.answers:
            self.decide(int(self.typed) - 1)
        self.typed = ""

    def decide(self, answer: int | None) -> None:
        """It is answered."""
        self.answer, self.is_answered = answer, True
        self.wait()

    def wait(self) -> None:
        """Take no more keys for now."""
        self.takes_keys = False
        self.typed = ""
        self.changed.set()


class _Commands(Completer):
    """Completes slash commands."""

    def __init__(self) -> None:
        self.known: list[AvailableCommand] = []

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """See `prompt_toolkit`."""
        text = document.text_before_cursor
        if not text.startswith("/") or any(letter.isspace() for letter in text):
            return
        for command in self.known:
            name = one_line(f"/{command.name}")
            if name.startswith(text):
                shown = one_line(f"{name} {hint_of(command)}".rstrip())
                yield Completion(
                    name, start_position=-len(text), display=shown, display_meta=one_line(command.description)
                )


class _OwnHistory(FileHistory):
    """Lines that were typed, kept over runs. A disk that fails does not end the chat."""

    def store_string(self, string: str) -> None:
        """See `prompt_toolkit`."""
        try:
            super().store_string(string)
        except OSError as error:
            logging.getLogger("acp_server.cli").warning("what was typed is not kept: %s", error.strerror)

    def load_history_strings(self) -> Iterable[str]:
        """See `prompt_toolkit`."""
        try:
            return list(super().load_history_strings())
        except OSError:
            return []


class _ScreenLog(logging.Handler):
    """What is logged, on the screen."""

    def __init__(self, screen: LiveScreen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging`."""
        self._screen.line(f"{record.levelname} {record.getMessage()}", dim=True)


def _output() -> Vt100_Output | None:
    if sys.platform == "win32":
        return None
    # An answer to the question for the cursor's place would look like typing.
    return Vt100_Output(sys.stdout, _terminal_size, term=os.environ.get("TERM"), enable_cpr=False)


def _terminal_size() -> Size:
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return Size(rows=rows or 24, columns=columns or 80)
