"""`talk`: a test of an agent in one line."""

from typing import Any, Literal

import anyio
import pytest

from acp_server import Agent, RpcError, ToolContext, Turn, UsageError
from acp_server.schema import PermissionOption, RequestPermissionRequest, ToolCall
from acp_server.testing import talk

pytestmark = pytest.mark.anyio


def editing_agent() -> Agent:
    agent = Agent("edits")

    @agent.tool(kind="edit", approval=True)
    async def shout(path: str, call: ToolContext) -> str:
        "Write a file in capitals."
        text = await call.client.read_text_file(f"{call.session.cwd}/{path}")
        await call.client.write_text_file(f"{call.session.cwd}/{path}", text.upper())
        return "done"

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        if turn.text == "wait":
            await anyio.sleep_forever()
        if turn.text.endswith(".txt"):
            result = await turn.run_tool("shout", {"path": turn.text})
            return result.status
        return f"You said {turn.text}."

    return agent


@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_is_there_and_answers(version: Literal[1, 2]) -> None:
    async with talk(editing_agent(), version=version) as session:
        assert await session.ask("hello") == "You said hello."
        assert session.agent.info is not None
        assert session.agent.info.protocol_version == version


@pytest.mark.parametrize(("permission", "status", "text"), [("allow", "completed", "HI"), ("reject", "rejected", "hi")])
async def test_questions_are_answered_and_files_are_those_of_a_dictionary(
    permission: Literal["allow", "reject"], status: str, text: str
) -> None:
    files = {"a.txt": "hi"}
    async with talk(editing_agent(), permission=permission, files=files) as session:
        assert await session.ask("a.txt") == status
    assert files == {"a.txt": text}


async def test_a_function_answers_questions() -> None:
    asked: list[RequestPermissionRequest] = []

    async def permission(request: RequestPermissionRequest) -> PermissionOption | None:
        asked.append(request)
        return None

    async with talk(editing_agent(), permission=permission, files={"a.txt": "hi"}) as session:
        assert await session.ask("a.txt") == "cancelled"
    assert [request.tool_call.title for request in asked] == ["Write a file in capitals"]


async def test_a_file_that_is_not_there_and_a_client_without_files() -> None:
    async with talk(editing_agent(), files={}) as session:
        assert await session.ask("b.txt") == "failed"
    async with talk(editing_agent()) as session:
        assert await session.ask("b.txt") == "failed"


async def test_files_are_read_by_lines_and_only_below_the_folder() -> None:
    agent = Agent("reads")
    read: list[str] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        read.append(await turn.client.read_text_file("/project/a.txt", line=2, limit=1))
        try:
            await turn.client.read_text_file("/project/../etc/passwd")
        except RpcError as error:
            read.append(str(error.code))

    async with talk(agent, files={"a.txt": "one\ntwo\nthree\n"}) as session:
        await session.run("go")
    assert read == ["two\n", "-32602"]


async def test_several_clients_talk_at_once_and_a_session_is_loaded() -> None:
    agent = editing_agent()
    async with talk(agent) as first, talk(agent) as second:
        assert first.id != second.id
        assert await second.ask("two") == "You said two."
        assert await first.ask("one") == "You said one."
    async with talk(agent, load=first.id) as session:
        assert session.id == first.id
        assert await session.ask("again") == "You said again."


async def test_a_cancel_ends_the_turn() -> None:
    async with talk(editing_agent()) as session:
        async with session.prompt("wait") as turn:
            turn.cancel()
            assert [update async for update in turn if isinstance(update, ToolCall)] == []
        assert turn.stop_reason == "cancelled"


async def test_a_permission_that_is_neither_is_refused() -> None:
    words = "permission must be 'allow', 'reject' or a function of the request, not 'yes'"
    with pytest.raises(UsageError, match=words):
        async with talk(editing_agent(), permission="yes"):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            pass


async def test_what_is_not_an_agent_is_said_at_once() -> None:
    with pytest.raises(UsageError, match="talk needs an Agent, not 'agent'"):
        async with talk("agent"):  # pyright: ignore[reportArgumentType]
            pass


@pytest.mark.parametrize("files", [{"/project/a.txt": "a"}, {"a.txt": b"a"}], ids=["whole path", "bytes"])
async def test_files_are_texts_by_their_paths_below_the_folder(files: Any) -> None:
    with pytest.raises(UsageError, match="files must map paths below cwd to texts"):
        async with talk(Agent("a"), files=files):
            pass
