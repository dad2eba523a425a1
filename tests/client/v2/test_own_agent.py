"""Our client drives our own agent on version 2, in memory and as a process: the whole life of a prompt."""

import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
import sniffio

from acp_server import Agent, Turn
from acp_server.client import Handlers, RemoteAgent, RemoteSession, allow_once, connect_agent, spawn_agent
from acp_server.client.handlers import AskPermission, PermissionAnswer
from acp_server.errors import INTERNAL_ERROR, InvalidParams, RequestCancelled, RpcError
from acp_server.schema import RequestPermissionRequest, SessionUpdate
from acp_server.testing import memory_pair
from tests.client.processes import PATIENCE
from tests.interop.subjects import working

pytestmark = pytest.mark.anyio

Wire: TypeAlias = dict[str, Any]
Driven: TypeAlias = Callable[..., AbstractAsyncContextManager[RemoteAgent]]


@asynccontextmanager
async def in_memory(handlers: Handlers) -> AsyncIterator[RemoteAgent]:
    # A module of its own for each test, since the agent keeps its sessions.
    agent = importlib.reload(importlib.import_module("tests.interop.agents.working")).agent
    here, there = memory_pair()
    async with anyio.create_task_group() as group:
        group.start_soon(agent.connect(there).run)
        async with connect_agent(here, handlers) as remote:
            yield remote


def as_process(handlers: Handlers) -> AbstractAsyncContextManager[RemoteAgent]:
    return spawn_agent(working(sniffio.current_async_library()), handlers)


@pytest.fixture(params=[in_memory, as_process], ids=["memory", "stdio"])
def driven(request: pytest.FixtureRequest) -> Driven:
    @asynccontextmanager
    async def driven(permission: AskPermission = allow_once, version: Any = 2) -> AsyncIterator[RemoteAgent]:
        with anyio.fail_after(2 * PATIENCE):
            async with request.param(Handlers(permission=permission)) as agent:
                await agent.initialize(version=version)
                assert agent.info is not None
                assert agent.info.protocol_version == version
                yield agent

    return driven


class Heard:
    """The updates of a session, within turns and between them."""

    def __init__(self) -> None:
        self.updates: list[Wire] = []
        self._news = anyio.Event()

    def __call__(self, update: SessionUpdate) -> None:
        self.updates.append(update.to_wire())
        self._news.set()
        self._news = anyio.Event()

    async def until(self, times: int = 1, **members: Any) -> Wire:
        """Wait for an update with these members, or for that many: the last of them."""
        while len(found := [update for update in self.updates if members.items() <= update.items()]) < times:
            await self._news.wait()
        return found[times - 1]

    @property
    def states(self) -> list[str]:
        states = [update for update in self.updates if update["sessionUpdate"] == "state_update"]
        return [update.get("stopReason", update["state"]) for update in states]

    @property
    def said(self) -> str:
        chunks = [update for update in self.updates if update["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)


async def prompting(session: RemoteSession, text: str) -> str:
    """Send a prompt beside the session's turn: the id of its message."""
    prompt = [{"type": "text", "text": text}]
    return (await session.agent.request("session/prompt", {"sessionId": session.id, "prompt": prompt}))["messageId"]


@pytest.mark.parametrize("version", [1, 2])
async def test_the_same_agent_and_program_go_through_a_turn_on_either_version(
    driven: Driven, version: int, tmp_path: Path
) -> None:
    async with driven(version=version) as agent:
        heard = Heard()
        session = await agent.new_session(tmp_path, on_update=heard)
        assert (await session.run("say")).stop_reason == "end_turn"
        assert heard.said == "one messageand another"
        assert [u["status"] for u in heard.updates if u["sessionUpdate"].startswith("tool_call")][-1] == "completed"
        assert heard.states == (["running", "end_turn"] if version == 2 else [])
        assert await session.ask("ask") == "completed"
        assert session.modes is not None
        assert [mode.id for mode in session.modes.available_modes] == ["calm", "keen"]


@pytest.mark.behaviour("M1", "M2", "M3")
async def test_a_cancelled_turn_ends_with_what_is_held_behind_it(driven: Driven, tmp_path: Path) -> None:
    async with driven() as agent:
        heard = Heard()
        session = await agent.new_session(tmp_path, on_update=heard)
        async with session.prompt("hang") as turn:
            await heard.until(sessionUpdate="agent_message_chunk")
            async with anyio.create_task_group() as group:

                async def held() -> None:
                    with pytest.raises(RequestCancelled):
                        await prompting(session, "held")

                group.start_soon(held)
                # Answered behind the prompt: the agent has it.
                await agent.list_sessions()
                turn.cancel()
                assert (await turn.wait()).stop_reason == "cancelled"
        assert await session.ask("more") == "re: more"
        assert heard.states == ["running", "cancelled", "running", "end_turn"]


@pytest.mark.behaviour("M4")
async def test_a_held_prompt_is_withdrawn_alone(driven: Driven, tmp_path: Path) -> None:
    async with driven() as agent:
        heard = Heard()
        session = await agent.new_session(tmp_path, on_update=heard)
        async with session.prompt("hang") as turn:
            await heard.until(sessionUpdate="agent_message_chunk")
            async with anyio.create_task_group() as group:
                group.start_soon(prompting, session, "held")
                await agent.list_sessions()
                group.cancel_scope.cancel()
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
        assert await session.ask("more") == "re: more"
        assert heard.said == "hangingre: more"


@pytest.mark.behaviour("M1", "M6", "M10")
async def test_a_held_prompt_is_inserted_when_the_turn_is_over_that_a_tool_call_is_cancelled_in(
    driven: Driven, tmp_path: Path
) -> None:
    async with driven() as agent:
        heard = Heard()
        session = await agent.new_session(tmp_path, on_update=heard)
        inserted: list[str] = []

        async def insert() -> None:
            inserted.append(await prompting(session, "held"))

        async with anyio.create_task_group() as group, session.prompt("work") as turn:
            call = (await heard.until(sessionUpdate="tool_call"))["toolCallId"]
            await heard.until(sessionUpdate="tool_call_update", toolCallId=call, status="in_progress")
            group.start_soon(insert)
            await agent.list_sessions()
            assert not inserted
            await session.cancel_tool_call(call)
            assert (await turn.wait()).stop_reason == "end_turn"
        await heard.until(2, state="idle", stopReason="end_turn")
        assert [one["messageId"] for one in heard.updates if one["sessionUpdate"] == "user_message_chunk"] == inserted
        assert heard.said == "cancelled: stopped in the middlere: held"
        ended = [one for one in heard.updates if one.get("toolCallId") == call and one.get("status") == "failed"]
        assert [one["_meta"] for one in ended] == [{"acp_server.status": "cancelled"}]
        with pytest.raises(InvalidParams):
            await session.cancel_tool_call(call)


async def test_a_tool_call_is_cancelled_alone_on_version_1_by_an_extension(driven: Driven, tmp_path: Path) -> None:
    async with driven(version=1) as agent:
        heard = Heard()
        session = await agent.new_session(tmp_path, on_update=heard)
        async with session.prompt("work") as turn:
            call = (await heard.until(sessionUpdate="tool_call"))["toolCallId"]
            await heard.until(sessionUpdate="tool_call_update", toolCallId=call, status="in_progress")
            await session.cancel_tool_call(call)
            assert (await turn.wait()).stop_reason == "end_turn"
        assert heard.said == "cancelled: stopped in the middle"
        with pytest.raises(InvalidParams):
            await session.cancel_tool_call(call)


async def test_a_command_is_cancelled_alone(driven: Driven, tmp_path: Path) -> None:
    async with driven() as agent:
        heard = Heard()
        session = await agent.new_session(tmp_path, on_update=heard)
        async with session.prompt("run") as turn:
            begun = await heard.until(sessionUpdate="terminal_output_chunk")
            await session.cancel_terminal(begun["terminalId"])
            assert (await turn.wait()).stop_reason == "end_turn"
        assert heard.said.startswith("ended by ")


@pytest.mark.behaviour("M8")
async def test_a_question_is_withdrawn_with_its_turn(driven: Driven, tmp_path: Path) -> None:
    asked, withdrawn = anyio.Event(), anyio.Event()

    async def hesitate(_request: RequestPermissionRequest) -> PermissionAnswer:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.set()

    async with driven(hesitate) as agent:
        heard = Heard()
        session = await agent.new_session(tmp_path, on_update=heard)
        async with session.prompt("ask") as turn:
            await asked.wait()
            await heard.until(state="requires_action")
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
        await withdrawn.wait()


@pytest.mark.behaviour("M11")
async def test_work_that_fails_is_raised(driven: Driven, tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(RpcError) as failed:
            await session.run("fail")
        assert (failed.value.code, failed.value.data) == (INTERNAL_ERROR, None)
        assert await session.ask("more") == "re: more"


@pytest.mark.behaviour("M9")
async def test_a_closed_session_is_taken_up_with_what_was_said(driven: Driven, tmp_path: Path) -> None:
    async with driven() as agent:
        live, replayed = Heard(), Heard()
        session = await agent.new_session(tmp_path, on_update=live)
        await session.run("say")
        async with session.prompt("hang") as turn:
            await live.until(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "hanging"})
            await session.close()
            assert (await turn.wait()).stop_reason == "cancelled"
        await agent.load_session(session.id, tmp_path, on_update=replayed)
        assert replayed.said == f"{live.said}[stopped]"
        users = [one for one in replayed.updates if one["sessionUpdate"] == "user_message_chunk"]
        assert [one["content"]["text"] for one in users] == ["say", "hang"]
        assert replayed.states == ["idle"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("way", ["load_session", "resume_session"])
async def test_a_session_that_is_taken_up_has_its_title_at_once(version: Any, way: str) -> None:
    agent = Agent("titled")

    @agent.prompt
    async def name(turn: Turn) -> None:
        await turn.session.set_title(turn.text)

    here, there = memory_pair()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group, connect_agent(here) as remote:
            group.start_soon(agent.connect(there).run)
            await remote.initialize(version=version)
            first = await remote.new_session("/project")
            await first.run("Notes")
            await first.close()
            again = await getattr(remote, way)(first.id, "/project")
            assert again.title == "Notes"
            assert again.updated_at is not None
