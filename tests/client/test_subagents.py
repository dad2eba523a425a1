"""Child sessions are objects below the session that has them, with their own updates, state and cancel."""

import logging
from typing import Any

import anyio
import pytest

from acp_server import Agent, Turn
from acp_server.client import Handlers, RemoteAgent, RemoteSubagent, connect_agent
from acp_server.client import subagents as module
from acp_server.schema import (
    AgentMessageChunk,
    ClientCapabilities,
    PermissionOption,
    RequestPermissionRequest,
    SessionUpdate,
    SubagentCapabilities,
    SubagentUpdate,
    TextContent,
    ToolCallUpdate,
    from_wire,
)
from acp_server.testing import memory_pair
from tests.session.children import KINDS, delegating

pytestmark = pytest.mark.anyio
kinds = pytest.mark.parametrize("kind", KINDS)

OPTIONS = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]
SHOWS = ClientCapabilities(subagents=SubagentCapabilities())


async def talking(agent: Agent, kind: str, program: Any, handlers: Handlers | None = None) -> None:
    """Have a program talk to an agent."""
    ours, theirs = memory_pair()
    async with anyio.create_task_group() as group:
        group.start_soon(agent.connect(theirs).run)
        async with connect_agent(ours, handlers) as remote:
            await remote.initialize(capabilities=SHOWS, version=2 if kind == "version 2" else 1)
            await program(remote)


@kinds
async def test_a_child_is_an_object_below_its_session(kind: str) -> None:
    async def work(turn: Turn) -> None:
        await turn.say("before")
        async with turn.subagent("one", description="It does") as one:
            await one.say("1")
            async with one.subagent("two") as two:
                await two.say("2")
                await anyio.sleep_forever()
            await one.say("3")
        await turn.say("after")

    said: list[tuple[str, str]] = []

    def hear(child: RemoteSubagent) -> None:
        def heard(update: SessionUpdate) -> None:
            if isinstance(update, SubagentUpdate) and update.session_id in child.subagents and update.title:
                hear(child.subagents[update.session_id])
            if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
                said.append((child.title or "", update.content.text))
                if child.title == "two":
                    assert child.can_cancel
                    assert child.state == "running"
                    child.cancel()

        child.on_update = heard

    async def program(remote: RemoteAgent) -> None:
        session = await remote.new_session("/project")

        def heard(update: SessionUpdate) -> None:
            if isinstance(update, SubagentUpdate) and update.title:
                hear(session.subagents[update.session_id])

        session.on_update = heard
        assert await session.ask("go") == "beforeafter"
        (one,) = session.subagents.values()
        (two,) = one.subagents.values()
        assert (one.title, one.description, one.state, one.stop_reason) == ("one", "It does", "idle", "end_turn")
        assert (two.state, two.stop_reason, two.can_cancel) == ("idle", "cancelled", False)
        assert (two.parent, two.session) == (one, session)
        assert said == [("one", "1"), ("two", "2"), ("one", "3")]
        await session.close()
        assert not session.subagents
        assert remote.subagents.get(one.id) is None

    await talking(delegating(work), kind, program)


@kinds
async def test_the_questions_of_a_child_are_dismissed_with_its_parent(kind: str) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("asker") as child:
            await child.client.request_permission(ToolCallUpdate(tool_call_id="c", title="Do it?"), OPTIONS)

    asked = anyio.Event()
    dismissed: list[str] = []

    async def permission(request: RequestPermissionRequest) -> None:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            dismissed.append(request.session_id)

    async def program(remote: RemoteAgent) -> None:
        session = await remote.new_session("/project")
        async with session.prompt("go") as turn:
            await asked.wait()
            assert remote.subagents.root_of(next(iter(session.subagents))) == session.id
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
            assert dismissed == [*session.subagents]

    await talking(delegating(work), kind, program, Handlers(permission=permission))


def told(id: str, **fields: Any) -> SubagentUpdate:
    update = from_wire(SubagentUpdate, {"sessionUpdate": "subagent_update", "sessionId": id, **fields})
    assert isinstance(update, SubagentUpdate)
    return update


def test_an_agent_cannot_fill_the_memory_with_children_or_move_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    caplog.set_level(logging.WARNING)
    parent: Any = type("Parent", (), {"id": "s", "subagents": {}})()
    known = module.Subagents({"s", "other"}, lambda _id: None)
    for id in ("other", "x" * 2000):
        known.tell(parent, told(id))
        assert known.get(id) is None
    for number in range(5):
        known.tell(parent, told(f"c{number}", title="t" * 5000, state={"state": "running"}))
    assert [*parent.subagents] == ["c0", "c1", "c2"]
    assert len(parent.subagents["c0"].title or "") == module.LONGEST
    assert len(caplog.records) == 1
    known.tell(parent, told("c1", state={"state": "idle"}))
    known.tell(parent, told("c5"))
    assert [*parent.subagents] == ["c0", "c2", "c5"]
    child = parent.subagents["c0"]
    known.tell(child, told("c2", title="moved"))
    known.tell(child, told("c0", title="its own parent"))
    assert not child.subagents
    assert parent.subagents["c2"].title != "moved"
    assert [*known.below("s")] == ["c0", "c2", "c5"]
    known.end("s")
    assert not parent.subagents
