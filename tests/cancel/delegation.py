"""A turn with a child and a grandchild, in both versions and to clients of either kind, and what must hold of it.

The child asks the user something and cleans up behind a shield. Its own child runs a tool.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio.lowlevel

from acp_server import Agent, ConnectionClosed, Turn, TurnEnded, grace
from acp_server.schema.tool_call import ToolCallUpdate
from tests.cancel.conversation import FIRST, OPTIONS, Conversation
from tests.cancel.life import some_steps

CHILD, GRANDCHILD = "child", "grandchild"


@dataclass
class Delegation(Conversation):
    """One run."""

    version: int = 1
    shows: bool = True
    """Whether the client shows child sessions."""

    def agent(self) -> Agent:
        self.boss = agent = Agent("story", unstable={"subagents"} if self.shows else ())

        @agent.tool
        async def work() -> AsyncIterator[str]:
            yield "half"
            await anyio.lowlevel.checkpoint()
            yield "whole"

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            self.did.append("begin")
            await turn.say("one")
            async with turn.subagent(CHILD, task="do it") as child:
                await self.delegated(child)
            self.did.append(f"after {child.is_cancelled}")
            await anyio.lowlevel.checkpoint()
            await turn.say("two")
            self.did.append("end")

        return agent

    async def delegated(self, child: Turn) -> None:
        try:
            await child.say("three")
            question = ToolCallUpdate(tool_call_id="question")
            await child.client.request_permission(question, OPTIONS)
            async with child.subagent(GRANDCHILD) as grandchild:
                await grandchild.run_tool("work", id="the_call")
                await grandchild.say("four")
            self.did.append(f"inner {grandchild.is_cancelled}")
            await anyio.lowlevel.checkpoint()
            await child.say("five")
        finally:
            with grace(), suppress(TurnEnded, ConnectionClosed):
                await anyio.lowlevel.checkpoint()
                await child.say("clean")
            self.did.append("clean")

    # -- the client

    async def greet(self) -> None:
        """Have a session."""
        if self.version == 2:
            await super().greet()
            return
        capabilities = {"subagents": {}} if self.shows else {}
        self.ask(-1, "initialize", protocolVersion=1, clientCapabilities=capabilities)
        await self.until(lambda: self.answers(-1))
        self.ask(-2, "session/new", cwd="/project", mcpServers=[])
        await self.until(lambda: self.answers(-2))
        self.session = self.answers(-2)[0]["sessionId"]
        await some_steps()

    def prompt(self, *texts: str) -> None:
        """Send one prompt."""
        super().prompt(*texts[:1])

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to be done."""
        idle = self.version == 1 or len(self.reasons) == len(self.inserted)
        size = 0 if self.version == 1 else 1
        return (
            all(self.answers(id) for id in self.asked)
            and not self.unanswered
            and idle
            and self.connection.tree.size <= size
        )

    @property
    def reasons(self) -> list[str]:
        """Why the turn has ended."""
        if self.version == 1:
            return [answer["stopReason"] for answer in self.answers(FIRST) if isinstance(answer, dict)]
        return [
            frame["params"]["update"]["stopReason"]
            for frame in self.sent
            if frame.get("params", {}).get("sessionId") == self.session
            and frame["params"].get("update", {}).get("state") == "idle"
            and "stopReason" in frame["params"]["update"]
        ]

    @property
    def announced(self) -> list[tuple[int, dict[str, Any]]]:
        """What was said of children, with its place among all that was sent."""
        places = enumerate(frame.get("params", {}).get("update", {}) for frame in self.sent)
        return [(place, one) for place, one in places if one.get("sessionUpdate") == "subagent_update"]

    def id_of(self, title: str) -> str | None:
        """The id of a child, if it was announced by now."""
        return next((one["sessionId"] for _, one in self.announced if one.get("title") == title), None)

    def cancel_child(self, title: str) -> None:
        """Cancel a child that was announced."""
        if (id := self.id_of(title)) is not None:
            self.stop("session/cancel", sessionId=id)

    # -- what must hold

    def check(self) -> None:
        """All of it."""
        for id in self.asked:
            assert len(self.answers(id)) == 1, id
        self.check_questions()
        self.check_end_of_session()
        assert self.connection.tree.size == 0
        ledger = self.connection.endpoint.ledger
        assert (len(self.connection.endpoint.incoming), ledger.outgoing, ledger.withdrawn) == (0, 0, 0)
        assert self.connection.leaked == 0
        assert [r.getMessage() for r in self.logged if r.levelno >= logging.ERROR] == []
        for side in self.boss._sides.values():
            assert not [session for session in side._sessions.values() if session.parent is not None]
        if self.shows:
            self.check_children()
        else:
            self.check_folded()

    def check_children(self) -> None:
        """Each is announced first and has one end, behind which nothing is said of it, and before that of its
        parent."""
        ends: list[str] = []
        for title in (CHILD, GRANDCHILD):
            id = self.id_of(title)
            if id is None:
                continue
            named = [place for place, frame in enumerate(self.sent) if id in self.names(frame)]
            states = [
                (place, one["state"]) for place, one in self.announced if one["sessionId"] == id and "state" in one
            ]
            assert named[0] == states[0][0]
            assert states[0][1] == {"state": "running"}
            idle = [(place, state) for place, state in states if state["state"] == "idle"]
            if not idle and (self.ended or self.raised is not None or self.connection._closed.is_set()):
                continue
            ((place, state),) = idle
            assert place == named[-1]
            ends.append(state["stopReason"])
            if self.answers(FIRST) and self.version == 1:
                assert place < self.place_of_answer(FIRST)
        assert {*ends} <= {"end_turn", "cancelled", "error"}
        if not {"$/cancel_request", "session/close", "end", "session/cancel"} & {*self.said}:
            assert {*ends} == {"end_turn"}

    @staticmethod
    def names(frame: Any) -> set[str]:
        """The sessions that a frame names."""
        params = frame.get("params", {})
        return {params.get("sessionId"), params.get("update", {}).get("sessionId")} - {None}

    def check_folded(self) -> None:
        """Each child is one tool call that has ended."""
        assert {name for frame in self.sent for name in self.names(frame)} <= {self.session}
        last: dict[str, str] = {}
        for update in self.updates:
            if "toolCallId" in update and "status" in update:
                assert last.get(update["toolCallId"]) not in ("completed", "failed", "cancelled")
                last[update["toolCallId"]] = update["status"]
        if self.reasons:
            assert {*last.values()} <= {"completed", "failed", "cancelled"}
