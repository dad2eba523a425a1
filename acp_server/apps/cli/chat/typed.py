"""Interprets keys at a terminal that is drawn on, as prompts or as answers to the question on the screen.

A question takes keys only after a pause in which the user could read it. All earlier keys are text for the next prompt.
Prompts are kept in a file of the user (`OwnHistory`).
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Self

import anyio
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from acp_server.apps.cli.chat.answers import SHOW_ALL, Answers
from acp_server.apps.cli.chat.user import PAUSE, is_typed_ahead
from acp_server.apps.cli.screen import hint_of, one_line
from acp_server.safe_text import escape
from acp_server.schema import AvailableCommand

_LOOK: Final = 0.04
"""Seconds between two checks whether keys wait to be read."""


class TypedInput:
    """The prompts that the user has typed and the chat has not read, and the question on the screen."""

    def __init__(self) -> None:
        self.submitted: deque[str] = deque()
        """The prompts, in the order in which they were typed."""
        self.arrived = anyio.Event()
        """Set when a prompt is submitted, and when the input is closed."""
        self.is_closed = False
        self.question: OpenQuestion | None = None
        """The question on the screen."""
        self.interrupt: Callable[[], None] = lambda: None
        """Called for Ctrl-C."""
        self._last_key = 0.0

    async def next_prompt(self) -> str | None:
        """Return the next prompt; None when the input is closed."""
        while not self.submitted:
            if self.is_closed:
                return None
            self.arrived: anyio.Event = anyio.Event()
            await self.arrived.wait()
        return self.submitted.popleft()

    def ask(self, answers: Answers, *, is_cut: bool = False) -> OpenQuestion:
        """Show a question with these answers. It does not take keys yet. `is_cut`: the screen shows only a part of the
        subject."""
        self._last_key = time.monotonic()
        self.question = OpenQuestion(answers, is_cut)
        return self.question

    async def quiet(self) -> None:
        """Wait until no key has been pressed for a while, and no key waits to be read."""
        while True:
            rest = self._last_key + PAUSE - time.monotonic()
            if rest > 0:
                await anyio.sleep(rest)
            elif is_typed_ahead(sys.stdin.fileno()):
                await anyio.sleep(_LOOK)
            else:
                return

    def key_pressed(self, _processor: Any) -> None:
        """Record that a key was pressed."""
        self._last_key = time.monotonic()

    def bindings(self) -> KeyBindings:
        """Return the handlers of the keys."""
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)
        asked = typing & Condition(lambda: self.question is not None and self.question.takes_keys)

        @Condition
        def is_empty() -> bool:
            buffer = get_app().layout.get_buffer_by_name(DEFAULT_BUFFER)
            return buffer is None or not buffer.text

        @keys.add("c-c", eager=True)
        def _interrupt(_event: KeyPressEvent) -> None:
            self.interrupt()

        @keys.add("c-d", filter=is_empty)
        def _close(_event: KeyPressEvent) -> None:
            if self.question is not None:
                self.question.decide(None)
                return
            self.is_closed = True
            self.arrived.set()

        @keys.add("enter", filter=typing & ~asked)
        def _submit(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            text = buffer.text
            if self.question is not None and self.question.answers.read(text) is not None:
                # The user answers the question, but may not have read it: the text is neither an answer nor a prompt.
                self.question.remark = _TOO_EARLY
            elif self.question is not None and self.question.was_readable:
                self.question.remark = _NO_ANSWER
                return
            elif text.strip():
                buffer.append_to_history()
                self.submitted.append(text)
                self.arrived.set()
            buffer.reset()

        @keys.add("escape", "enter", filter=typing)
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("enter", filter=asked)
        def _decide(event: KeyPressEvent) -> None:
            assert self.question is not None
            self.question.enter(may_be_none=not event.current_buffer.text)

        @keys.add("backspace", filter=asked)
        def _rub_out(_event: KeyPressEvent) -> None:
            assert self.question is not None
            self.question.typed = self.question.typed[:-1]

        @keys.add(SHOW_ALL, filter=asked & Condition(lambda: self.question is not None and self.question.is_cut))
        def _show_all(_event: KeyPressEvent) -> None:
            assert self.question is not None
            self.question.wants_all = True
            self.question.wait()

        @keys.add(Keys.Any, filter=asked)
        @keys.add(Keys.BracketedPaste, filter=asked)
        def _key(event: KeyPressEvent) -> None:
            question = self.question
            assert question is not None
            if event.key_sequence[0].key != Keys.BracketedPaste and question.takes(event.data):
                return
            # The user writes the next prompt. The next keys may still be an answer.
            begun = question.typed
            question.wait()
            event.current_buffer.insert_text(begun + event.data.replace("\r\n", "\n").replace("\r", "\n"))

        return keys


_TOO_EARLY: Final = "    That was typed before the question could be read. Answer again.\n"
_NO_ANSWER: Final = "    That is not an answer.\n"
_DIGITS: Final = 4
"""The most digits of a number that are kept. A number that is too large is then refused."""


class OpenQuestion:
    """A question on the screen, and the part of its answer that has been typed."""

    def __init__(self, answers: Answers, is_cut: bool = False) -> None:
        self.answers = answers
        self.is_cut = is_cut
        """Whether the screen shows only a part of the subject."""
        self.wants_all = False
        """Whether the user wants to see the rest."""
        self.takes_keys = False
        """Whether keys are its answer. Otherwise they are text."""
        self.was_readable: bool = False
        """Whether the question has ever taken keys. Later text was not typed ahead."""
        self.typed = ""
        self.remark = ""
        """A line about the text that was typed before, with its newline."""
        self.answer: int | None = None
        self.is_answered: bool = False
        self.changed = anyio.Event()

    def take_keys(self) -> None:
        """Accept keys: the user has had time to read the question."""
        self.takes_keys = True
        self.was_readable = True
        self.changed: anyio.Event = anyio.Event()

    def takes(self, keys: str) -> bool:
        """Add keys to the answer. Returns False, and adds nothing, if the result would neither begin an answer nor be a
        number."""
        typed = self.typed + keys
        if not (self.answers.begins(typed) or (typed.isdecimal() and len(typed) <= _DIGITS)):
            return False
        self.typed += keys
        return True

    def enter(self, *, may_be_none: bool) -> None:
        """Take the typed text as the answer, if it is an answer. `may_be_none`: an empty text dismisses the
        question."""
        answer = self.answers.read(self.typed)
        if answer is not None or (may_be_none and not self.typed):
            self.decide(answer)
        self.remark: str = _NO_ANSWER
        self.typed = ""

    def decide(self, answer: int | None) -> None:
        """End the question with an answer; None means that it was dismissed."""
        self.answer = answer
        self.is_answered = True
        self.wait()

    def wait(self) -> None:
        """Take no keys for now."""
        self.takes_keys: bool = False
        self.typed: str = ""
        self.changed.set()


class Commands(Completer):
    """Completes slash commands."""

    def __init__(self) -> None:
        self.known: list[AvailableCommand] = []

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """See `prompt_toolkit`."""
        text = document.text_before_cursor
        if not text.startswith("/") or any(letter.isspace() for letter in text):
            return
        for command in self.known:
            name = one_line(f"/{escape(command.name, exact=True)}")
            if name.startswith(text):
                shown = one_line(f"{name} {hint_of(command)}".rstrip())
                yield Completion(
                    name, start_position=-len(text), display=shown, display_meta=one_line(command.description)
                )


LARGEST: Final = 1 << 20
"""The most bytes of the history file. If the file is larger, its later half is kept."""


class OwnHistory(FileHistory):
    """Keeps prompts from one run to the next. A disk that fails does not end the chat."""

    @classmethod
    def open(cls) -> Self | None:
        """Return the history in the user's state directory. Its file is created if needed, and only its owner can read
        it. Returns None if it cannot be created."""
        from platformdirs import user_state_path

        path = user_state_path("acp-server", appauthor=False) / "chat_history"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            path.chmod(0o600)
            if path.stat().st_size > LARGEST:
                _shorten(path)
        except OSError:
            return None
        return cls(path)

    def store_string(self, string: str) -> None:
        """See `prompt_toolkit`."""
        try:
            super().store_string(string)
        except OSError as error:
            logging.getLogger("acp_server.apps.cli").warning("what was typed is not kept: %s", error.strerror)

    def load_history_strings(self) -> Iterable[str]:
        """See `prompt_toolkit`."""
        try:
            return list(super().load_history_strings())
        except OSError:
            return []


def _shorten(path: Path) -> None:
    # An entry begins with an empty line and a comment with the time.
    rest = path.read_bytes()[-LARGEST // 2 :]
    path.write_bytes(rest[max(0, rest.find(b"\n\n#")) :])
