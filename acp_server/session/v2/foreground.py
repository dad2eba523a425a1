"""The work on one prompt, which hangs below its session: its end is the state `idle` (ACP v2, prompt lifecycle).

That is to the client what the answer to `session/prompt` is in version 1: told once, whatever happens, outside of the
scope that it reports on.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from acp_server.errors import SessionClosed
from acp_server.peer.outcome import outcome
from acp_server.session import prompting as v1
from acp_server.session.v2.turn import Turn
from acp_server.tasks.failure import program_end
from acp_server.tasks.grace import Job
from acp_server.tasks.tree import NOTHING, Node

if TYPE_CHECKING:
    from acp_server.peer.context import Call
    from acp_server.schema.content import PromptRequest
    from acp_server.session.definition import PromptHandler
    from acp_server.session.v2.session import Session
    from acp_server.wire.messages import Request

logger = logging.getLogger("acp_server.session")


class Prompt(v1.Prompt):
    """A prompt whose message is part of the history already when its turn begins."""

    __slots__ = ()

    TURN: ClassVar = Turn

    def insert(self, session: Session) -> None:
        """The user's message is part of the conversation from now on."""
        self._unsaved = True
        session.insert(self.turn)


class Foreground(Job):
    """The work on the prompt of `call`. Before `begin`, that is held: what cancels the work cancels the request."""

    __slots__ = ("_call", "_has_begun", "_is_told", "_session", "connection", "prompt")

    def __init__(self, handler: PromptHandler, call: Call, session: Session, request: PromptRequest | None) -> None:
        self.connection: Final = call.connection
        node = session.node.child("foreground work")
        super().__init__(node, self.connection.work, self.connection.watchdog, self.connection.limits.grace)
        self._call = call
        self._session = session
        self._has_begun = False
        self._is_told = False
        self.prompt: Final = Prompt(handler, self, session, request)

    @property
    def request(self) -> Request:
        """The request of its prompt, which may be answered."""
        return self._call.request

    @property
    def method(self) -> str:
        """For the log."""
        return self._call.method

    @property
    def offered(self) -> Any:
        """See `acp_server.peer.outcome.Answered`."""
        return self.prompt.partial()

    def begin(self) -> None:
        """Insert the message, and do what it asks for."""
        self._has_begun = True
        self.prompt.insert(self._session)
        self.start(self.prompt.serve)

    def request_over(self) -> None:
        """Its request is over. If the message was not inserted, it never will be."""
        if not self._has_begun:
            self.prompt.left()
            self.node.close()

    def was_cancelled(self, _node: Node) -> None:
        """See `SupervisedWork`."""
        if self._has_begun:
            super().was_cancelled(_node)
        elif _node.cause is not None:
            self._call.node.cancel(_node.cause)

    def over(self, value: Any, error: BaseException | None) -> None:
        """See `Job`."""
        self._tell(value, error)
        self.prompt.left()
        if error is not None and (ending := program_end(error)) is not None:
            self.connection.fail(ending)

    def give_up(self) -> None:
        """See `SupervisedWork`. The session is not free for the next prompt: what was cancelled still runs."""
        if self._has_begun and not self._is_told:
            logger.warning("%s does not end although it was cancelled; told without it", self.node.label)
            self._tell(NOTHING, None)

    def _tell(self, value: Any, error: BaseException | None) -> None:
        """Tell the client how it ended. The first time counts."""
        if self._is_told:
            return
        self._is_told = True
        if value is NOTHING and error is None:
            value = self.prompt.partial()
        refusal = None
        if value is NOTHING:
            value, refusal = outcome(self, error)
        how = value if refusal is None else {"stopReason": "error", "error": refusal.to_wire()}
        with suppress(SessionClosed):
            self._session.updates.state("idle", **how)
        self.prompt.answered()
