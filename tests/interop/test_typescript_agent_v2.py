"""Our client drives an agent of the official TypeScript SDK that speaks version 2, with the calls of version 1."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.client import AgentExited, Handlers, RemoteAgent, RemoteSession, allow_once, spawn_agent
from acp_server.client.handlers import AskPermission, PermissionAnswer
from acp_server.errors import InvalidParams, RpcError
from acp_server.schema import RequestPermissionRequest
from tests.client.processes import PATIENCE

from .typescript import NODE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("require_npm")]

COMMAND = ["node", str(NODE / "agent_v2.js")]


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One of both, by the test: it says what the SDK's agent does. `tests/client` has our client on both."""
    return ("asyncio", "trio")[sum(request.node.name.encode()) % 2]


@asynccontextmanager
async def driven(
    permission: AskPermission = allow_once, *, versions: str = "", version: Any = 2
) -> AsyncIterator[RemoteAgent]:
    with anyio.fail_after(2 * PATIENCE):
        async with spawn_agent(COMMAND, Handlers(permission=permission), env={"AGENT_VERSIONS": versions}) as agent:
            await agent.initialize(version=version)
            yield agent


async def run(session: RemoteSession, prompt: str) -> tuple[list[dict[str, Any]], str]:
    async with session.prompt(prompt) as turn:
        updates = [update.to_wire() async for update in turn]
        return updates, turn.stop_reason


@pytest.mark.parametrize(("asked", "versions", "spoken"), [(1, "", 1), (2, "", 2), (2, "1", 1), (2, "2", 2)])
async def test_both_sides_settle_on_the_highest_version_of_both(
    asked: int, versions: str, spoken: int, tmp_path: Path
) -> None:
    async with driven(version=asked, versions=versions) as agent:
        assert agent.info is not None
        assert agent.info.protocol_version == spoken
        session = await agent.new_session(tmp_path)
        if spoken == 1:
            assert (await session.run("anything")).stop_reason == "end_turn"
        else:
            assert await session.ask("stream 3") == "0 1 2 "


async def test_an_agent_without_version_1_refuses_a_client_that_asks_for_it() -> None:
    with pytest.raises(RpcError) as refused:
        async with driven(version=1, versions="2"):
            pass
    assert refused.value.code == -32022


async def test_questions_tools_and_plans_are_seen_as_in_version_1(tmp_path: Path) -> None:
    asked: list[RequestPermissionRequest] = []

    async def ask(request: RequestPermissionRequest) -> PermissionAnswer:
        asked.append(request)
        return await allow_once(request)

    async with driven(ask) as agent:
        session = await agent.new_session(tmp_path)
        assert [command.name for command in session.available_commands] == ["stream"]
        assert await session.ask("ask") == "yes"
        assert await session.ask("command") == "yes"
        assert [(one.tool_call.title, one.tool_call.kind) for one in asked] == [
            ("Remove", "delete"),
            ("May I?", "execute"),
        ]
        updates, reason = await run(session, "tool")
        calls = [(one["sessionUpdate"], one.get("status")) for one in updates if "toolCallId" in one]
        assert calls == [
            ("tool_call", "in_progress"),
            ("tool_call_update", None),
            ("tool_call_update", None),
            ("tool_call_update", "failed"),
        ]
        (both,) = [one["content"] for one in updates if len(one.get("content", ())) == 2 and "toolCallId" in one]
        assert [piece["content"]["text"] for piece in both] == ["one", "two"]
        assert [one["entries"][0]["content"] for one in updates if one["sessionUpdate"] == "plan"] == ["look"]
        assert reason == "end_turn"


async def test_a_prompt_whose_message_comes_behind_its_answer_ends_with_its_own_work(tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        for count in ("2", "3"):
            updates, reason = await run(session, f"late stream {count}")
            said = [one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
            assert (said, reason) == ([f"{number} " for number in range(int(count))], "end_turn")
            assert not [one for one in updates if one["sessionUpdate"] == "user_message_chunk"]
        async with session.prompt("late hang") as turn:
            async for update in turn:
                if update.session_update == "agent_message_chunk":
                    turn.cancel()
            assert turn.stop_reason == "cancelled"


async def test_a_cancelled_turn_keeps_what_it_said_and_the_next_one_is_answered(tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("hang") as turn:
            async for update in turn:
                if update.session_update == "agent_message_chunk":
                    turn.cancel()
            assert turn.stop_reason == "cancelled"
        assert await session.ask("stream 2") == "0 1 "


@pytest.mark.parametrize("prompt", ["hang", "hold"])
async def test_the_callers_own_cancel_ends_the_work_or_withdraws_the_prompt(prompt: str, tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        with anyio.CancelScope() as scope:
            async with session.prompt(prompt) as turn:
                if prompt == "hang":
                    await anext(turn)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert await session.ask("stream 2") == "0 1 "


async def test_a_held_prompt_that_is_cancelled_is_cancelled(tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("hold") as turn:
            # The agent handles messages side by side: its answer to this says that it has the prompt.
            await agent.list_sessions()
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"


async def test_a_question_that_is_open_at_the_cancel_is_withdrawn(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def hesitate(_request: RequestPermissionRequest) -> PermissionAnswer:
        asked.set()
        await anyio.sleep_forever()

    async with driven(hesitate) as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("ask") as turn:
            await asked.wait()
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"


async def test_one_tool_call_is_cancelled_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("dig") as turn:
            async for update in turn:
                if update.session_update == "tool_call":
                    with pytest.raises(InvalidParams):
                        await session.cancel_tool_call("another")
                    await session.cancel_tool_call("c3")
                elif update.session_update == "tool_call_update":
                    assert (update.to_wire()["_meta"]) == {"acp_server.status": "cancelled"}
                last = update.to_wire() if update.session_update == "agent_message_chunk" else None
                assert last is None or last["content"]["text"] == "went on"
            assert turn.stop_reason == "end_turn"
        with pytest.raises(InvalidParams):
            await session.cancel_tool_call("c3")


async def test_errors_of_the_work_and_of_the_request_are_raised(tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        for prompt, code in (("fail", -32000), ("unheard-of", -32602)):
            with pytest.raises(RpcError) as raised:
                await session.run(prompt)
            assert raised.value.code == code
        with pytest.raises(RpcError) as raised:
            await agent.load_session("lost", tmp_path)
        assert (raised.value.code, raised.value.data) == (-32002, {"sessionId": "lost"})
        await agent.close_session("lost")
        await agent.authenticate("key")
        await agent.logout()


async def test_a_session_is_taken_up_with_its_history_set_listed_closed_and_deleted(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        await session.run("stream 2")
        (option,) = (await session.set_config_option("mode", "b")).config_options
        assert option.to_wire()["currentValue"] == "b"
        await session.close()
        taken = await agent.load_session(session.id, tmp_path, on_update=lambda one: heard.append(one.to_wire()))
        said = [one["content"]["text"] for one in heard if one["sessionUpdate"].endswith("_message_chunk")]
        assert said == ["stream 2", "0 ", "1 "]
        assert heard[-1]["state"] == "idle"
        assert [info.session_id for info in (await agent.list_sessions()).sessions] == [session.id]
        await taken.delete()
        assert (await agent.list_sessions()).sessions == []


async def test_closing_ends_the_work(tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("hang") as turn:
            await anext(turn)
            await session.close()
            assert (await turn.wait()).stop_reason == "cancelled"


async def test_an_agent_that_dies_in_the_middle_of_its_work_is_told_of(tmp_path: Path) -> None:
    async with driven() as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentExited, match="status 7"):
            await session.run("die")
