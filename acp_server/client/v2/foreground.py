"""Determines when the work for a prompt has ended. The agent answers `session/prompt` when the work begins, and reports
its end with the state `idle`.

The response and the states may overtake each other (ACP v2, prompt lifecycle). An `idle` ends the work for a prompt if
two messages came before: the prompt's message, whose id is in the response, and another state. So neither the end of
earlier work nor a repeated snapshot ends it. If an agent reports `idle` and no other state, it has `BEGIN_SECONDS` to
report another state, as the protocol requires. If it does not, that `idle` was the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import anyio

from acp_server.client.v2.updates import short
from acp_server.peer.outbound import OnOver
from acp_server.schema import v2

ECHOES: Final = 100
"""The most user messages that are remembered while the response to a prompt is pending."""

BEGIN_SECONDS: Final = 5.0
"""Seconds in which an agent that reports `idle` after a prompt may still begin work on it. After that, the `idle`
counts as the end."""


class Work:
    """The foreground work for one prompt of the client. If the caller no longer waits, `on_over` is called when the
    work ends."""

    def __init__(self, foreground: Foreground, on_over: OnOver | None) -> None:
        self.message_id: str | None = None
        """The id of the message with the prompt; None before the response to the prompt."""
        self.ended: v2.StateUpdate | None = None
        """The state that ended the work."""
        self.done: anyio.Event = anyio.Event()
        """Set when the work has ended or the connection is lost."""
        self.waiting: anyio.CancelScope = anyio.CancelScope()
        """The scope of the caller that waits for `done`. It has the caller's deadline."""
        self.unbegun: v2.StateUpdate | None = None
        """The `idle` that counts as the end at that deadline, if no other state arrives."""
        self._foreground = foreground
        self._on_over = on_over
        self._echoes: dict[str, v2.StateUpdate | None] = {}
        self._was_busy = foreground.is_busy
        self._idle: v2.StateUpdate | None = None
        self._is_left = False

    def is_echo(self, message_id: str) -> bool:
        """Whether a message of the user is the echo of the prompt, as far as that is known. Remembers the message's
        id."""
        if self.message_id is not None:
            return message_id == self.message_id
        if len(self._echoes) < ECHOES:
            self._echoes.setdefault(short(message_id), None)
        return True

    def answered(self, message_id: str) -> None:
        """Record that the agent has added the prompt to the conversation."""
        self.message_id = message_id
        # Without an echo, which the protocol requires, the last work that began after the prompt was for it.
        echo = short(message_id)
        ended = self._echoes.get(echo) if echo in self._echoes else self._idle
        if ended is not None:
            self.end(ended)
        elif self.unbegun is not None:
            self._bound()

    def went_on(self) -> None:
        """Record that the agent reports foreground work."""
        if not self.waiting.cancel_called:
            self.unbegun, self.waiting.deadline = None, math.inf

    def is_idle(self, state: v2.StateUpdate) -> None:
        """Record that the agent reports no foreground work, and reported none before."""
        if self.unbegun is None:
            self.unbegun = state
            if self.message_id is not None:
                self._bound()

    def went_idle(self, state: v2.StateUpdate) -> None:
        """Record that the foreground work has ended."""
        if self.message_id is not None:
            self.end(state)
            return
        self._echoes = {id: ended or state for id, ended in self._echoes.items()}
        if not self._was_busy:
            self._idle = state
        self._was_busy = False

    def end(self, state: v2.StateUpdate | None) -> None:
        """End the work with this state. Only the first call sets the state."""
        self.ended = self.ended or state
        self._foreground.forget(self)
        self.lost()

    def refused(self) -> None:
        """Record that the agent will not answer and the caller no longer waits. Unless the prompt was accepted, the
        work is over."""
        if self.message_id is None:
            self._over()

    def left(self) -> None:
        """Record that the caller no longer waits."""
        self._is_left = True
        if self.done.is_set():
            self._over()

    def lost(self) -> None:
        """Record that nothing more will be received about the work."""
        self.done.set()
        if self._is_left:
            self._over()

    def _bound(self) -> None:
        self.waiting.deadline = self._foreground.time() + BEGIN_SECONDS

    def _over(self) -> None:
        self._foreground.forget(self)
        if self._on_over is not None:
            self._on_over()


class Foreground:
    """The foreground state of one session."""

    def __init__(self, time: Callable[[], float]) -> None:
        self.time = time
        self.is_busy: bool = False
        """Whether the agent reports foreground work. A new session counts as idle."""
        self.work: Work | None = None
        """The work for the client's last prompt, until it has ended."""

    def begin(self, on_over: OnOver | None) -> Work:
        """Begin the work for a prompt that is about to be sent."""
        self.work = Work(self, on_over)
        return self.work

    def forget(self, work: Work) -> None:
        """Forget `work`, because nothing more will arrive for it."""
        if self.work is work:
            self.work = None

    def snapshot(self, state: v2.StateUpdate, *, is_cancelling: bool) -> None:
        """Handle the foreground state that the agent reports. A cancelled prompt ends at the next `idle`, whatever the
        state was before."""
        was_busy, self.is_busy = self.is_busy, state.state != "idle"
        if self.work is not None:
            if self.is_busy:
                self.work.went_on()
            elif was_busy or is_cancelling:
                self.work.went_idle(state)
            else:
                self.work.is_idle(state)
