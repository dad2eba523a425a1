"""`session/prompt` (ACP v2, prompt lifecycle): it is answered when the user's message is part of the conversation. What
is done for it then goes on as the foreground work of its session.

A prompt that arrives while another is worked on is held. Until its turn comes it can be withdrawn, and `session/cancel`
ends it, too: both answer it with -32800, and its message never is part of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import anyio

from acp_server.errors import InvalidRequest, RequestCancelled
from acp_server.peer.context import Call, Follower
from acp_server.schema.params import problem, read
from acp_server.session import prompting as v1
from acp_server.session.steering import inject
from acp_server.session.v2.foreground import Foreground

if TYPE_CHECKING:
    from acp_server.schema.content import PromptRequest
    from acp_server.session.definition import PromptHandler, SteeringHandler
    from acp_server.session.turn import Turn
    from acp_server.session.v2.session import Session


class Insertion(Follower):
    """One `session/prompt`, until its message is part of the conversation."""

    __slots__ = ("_call", "_work", "steer")

    def __init__(self, handler: PromptHandler, call: Call, session: Session, request: PromptRequest | None) -> None:
        self._call = call
        self.steer: SteeringHandler | None = None
        """What hands it to the turn that runs, if there is one and the author wants that."""
        self._work = Foreground(handler, call, session, request)

    async def serve(self) -> dict[str, Any]:
        """The prompt's answer."""
        turn = self._work.prompt.turn
        if turn.session.turns[0] is not turn:
            if self.steer is not None and await inject(self.steer, turn.session, turn.record.prompt, turn.id):
                return {"messageId": turn.id}
            await self._wait()
            if self._call.is_cancelled:
                # The cancel came as the wait was over, and has not ended it.
                raise RequestCancelled
        # Nothing waits from here on: from now on a cancel of the request is late and changes nothing.
        self._work.begin()
        return {"messageId": turn.id}

    async def _wait(self) -> None:
        """Wait for the turns before this one; but not for ever for those that were cancelled."""
        turn = self._work.prompt.turn
        session = turn.session
        while (first := session.turns[0]) is not turn:
            patience = None if first.cause is None else self._call.connection.limits.grace
            with anyio.move_on_after(patience):
                await session.wait_first(turn)
            if session.turns[0] is first:
                told = "The cancelled turn before this one is still cleaning up"
                raise InvalidRequest(told, data={"sessionId": session.id})

    def left(self) -> None:
        """See `Follower`."""
        self._work.request_over()


class Prompting(v1.Prompting):
    """The prompts of one connection."""

    PROMPT: ClassVar = Insertion

    def register(self, call: Call) -> None:
        """Hold a prompt until `Insertion.serve` inserts it. Raises InvalidParams, ResourceNotFound and
        InvalidRequest."""
        if call.params.get("prompt") == []:
            raise problem("prompt", "has nothing in it")
        super().register(call)
        if self._definition.second_prompts == "steer":
            call.follower.steer = self._definition.steer

    def _may_wait(self, turns: Sequence[Turn]) -> bool:
        return self._definition.second_prompts != "refuse" or super()._may_wait(turns)

    def read(self, call: Call) -> PromptRequest:
        """See `acp_server.session.prompting.Prompting`."""
        from acp_server.schema.content import PromptRequest
        from acp_server.schema.v2.content import UnknownContentBlock
        from acp_server.schema.v2.prompt import PromptRequest as PromptRequestV2

        for index, block in enumerate(read(PromptRequestV2, call.params).prompt):
            # What this version of the protocol does not know, the agent may.
            if block.type not in self._content and not isinstance(block, UnknownContentBlock):
                raise problem(f"prompt[{index}]", f"this agent does not take {block.type} content")
        return read(PromptRequest, call.params)
