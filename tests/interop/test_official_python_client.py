"""The official Python SDK's client drives our agents as processes of their own.

This client withdraws no request of its own. Before 1.0 it answers what is withdrawn when it pleases: that must not hold
a turn up.
"""

import asyncio
from pathlib import Path

import acp
import pytest
from acp.client.connection import ClientSideConnection
from acp.schema import PromptResponse

from .editor import ENDS_HANDLERS, Editor, attached, text_block
from .projects import NEEDLE, assert_partial
from .subjects import COMMAND, nested, workspace

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The SDK's client runs on asyncio alone; our agents run on both."""
    return "asyncio"


@pytest.fixture(params=["asyncio", "trio"])
def agent(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return nested(request.param)


async def opened(connection: ClientSideConnection, cwd: Path) -> str:
    return (await connection.new_session(cwd=str(cwd), mcp_servers=[])).session_id


async def ask(connection: ClientSideConnection, session: str, text: str) -> PromptResponse:
    return await connection.prompt(session_id=session, prompt=[text_block(text)])


async def test_a_prompt_streams_and_the_client_serves_what_the_agent_asks_for(
    agent: tuple[str, ...], project: Path
) -> None:
    editor = Editor()
    async with attached(editor, agent) as connection:
        session = await opened(connection, project)
        for text, said in [
            ("stream 3", "0 1 2 "),
            ("read notes.txt", "first line\nsecond line\n"),
            ("ask", "allowed"),
            ("run echo hello", "hello\n"),
        ]:
            answer = await ask(connection, session, text)
            assert (answer.stop_reason, editor.said.pop(session)) == ("end_turn", said)
    assert editor.released == ["terminal-1"]


@pytest.mark.behaviour("F1", "F7")
async def test_a_cancelled_turn_keeps_what_it_said_and_the_next_one_is_answered(
    agent: tuple[str, ...], project: Path
) -> None:
    editor = Editor()
    async with attached(editor, agent) as connection:
        session = await opened(connection, project)
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(ask(connection, session, "hang"))
            await editor.reached("agent_message_chunk")
            await connection.cancel(session_id=session)
        assert (turn.result().stop_reason, editor.said.pop(session)) == ("cancelled", "hanging")
        answer = await ask(connection, session, "stream 3")
        assert (answer.stop_reason, editor.said[session]) == ("end_turn", "0 1 2 ")


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("read notes.txt", "fs/read_text_file"),
        ("ask", "session/request_permission"),
        ("run sleep 1000", "terminal/create"),
        ("run sleep 1000", "terminal/wait_for_exit"),
    ],
)
@pytest.mark.behaviour("C5", "F8", "F9", "F11", "F12")
async def test_a_cancelled_turn_does_not_wait_for_a_client_that_holds_its_answer_back(
    agent: tuple[str, ...], text: str, method: str, project: Path
) -> None:
    editor = Editor()
    async with attached(editor, agent) as connection:
        session = await opened(connection, project)
        held = editor.hold(method)
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(ask(connection, session, text))
            await editor.reached(method)
            await connection.cancel(session_id=session)
        assert turn.result().stop_reason == "cancelled"
        held.set()
        answer = await ask(connection, session, "stream 3")
        assert (answer.stop_reason, editor.said[session]) == ("end_turn", "0 1 2 ")
        is_made = method.startswith("terminal/") and not (ENDS_HANDLERS and method == "terminal/create")
        if is_made and not editor.released:
            await editor.reached("terminal/release")


@pytest.mark.behaviour("E10")
async def test_a_prompt_right_behind_the_cancel_of_another_is_answered(agent: tuple[str, ...], project: Path) -> None:
    editor = Editor()
    async with attached(editor, agent) as connection:
        session = await opened(connection, project)
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(connection, session, "hang"))
            await editor.reached("agent_message_chunk")
            await connection.cancel(session_id=session)
            second = group.create_task(ask(connection, session, "stream 3"))
        assert (first.result().stop_reason, second.result().stop_reason) == ("cancelled", "end_turn")
        assert editor.said[session] == "hanging0 1 2 "


@pytest.mark.parametrize("permission", ["reject_once", "cancelled", "error"])
@pytest.mark.behaviour("F9")
async def test_a_permission_that_is_not_granted_ends_nothing_but_the_tool(
    agent: tuple[str, ...], permission: str, project: Path
) -> None:
    editor = Editor(permission=permission)
    async with attached(editor, agent) as connection:
        session = await opened(connection, project)
        answer = await ask(connection, session, "ask")
        assert (answer.stop_reason, editor.said[session]) == ("end_turn", "not allowed")


@pytest.mark.behaviour("F6")
async def test_a_cancel_leaves_the_other_session_alone(agent: tuple[str, ...], project: Path) -> None:
    editor = Editor()
    async with attached(editor, agent) as connection:
        one, other = await opened(connection, project), await opened(connection, project)
        held = editor.hold("fs/read_text_file")
        async with asyncio.TaskGroup() as group:
            cut = group.create_task(ask(connection, one, "hang"))
            kept = group.create_task(ask(connection, other, "read notes.txt"))
            await editor.reached("agent_message_chunk")
            await editor.reached("fs/read_text_file")
            await connection.cancel(session_id=one)
            assert (await cut).stop_reason == "cancelled"
            held.set()
        assert (kept.result().stop_reason, editor.said[other]) == ("end_turn", "first line\nsecond line\n")


@pytest.mark.behaviour("G7")
async def test_an_agent_that_is_left_in_the_middle_of_a_turn_leaves_with_0(
    agent: tuple[str, ...], project: Path
) -> None:
    editor = Editor()
    async with attached(editor, agent) as connection:
        session = await opened(connection, project)
        turn = asyncio.create_task(ask(connection, session, "hang"))
        await editor.reached("agent_message_chunk")
    with pytest.raises(ConnectionError):
        await turn


async def test_the_workspace_agent_streams_what_it_finds_with_its_places(project: Path) -> None:
    editor = Editor()
    async with attached(editor, [COMMAND]) as connection:
        session = await opened(connection, project)
        answer = await ask(connection, session, f"/search {NEEDLE}")
        assert answer.stop_reason == "end_turn"
        assert "src/app.py:2:" in editor.said.pop(session)
        answer = await ask(connection, session, "/read notes.txt:2")
        assert answer.stop_reason == "end_turn"
        assert "second line" in editor.said[session]
    kinds = [update.session_update for update in editor.updates[session]]
    assert kinds[:3] == ["available_commands_update", "session_info_update", "tool_call"]


@pytest.mark.behaviour("F1", "F7")
async def test_a_search_cancelled_at_its_first_hits_keeps_them_and_says_that_they_are_not_all(
    vast_project: Path,
) -> None:
    editor = Editor()
    async with attached(editor, workspace()) as connection:
        session = await opened(connection, vast_project)
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(ask(connection, session, f"/search {NEEDLE}"))
            await editor.reached("agent_message_chunk")
            await connection.cancel(session_id=session)
        assert turn.result().stop_reason == "cancelled"
        assert_partial(editor.said.pop(session))
        answer = await ask(connection, session, "/read file0000.txt:1")
        assert answer.stop_reason == "end_turn"
        assert NEEDLE in editor.said[session]


async def test_the_workspace_agent_answers_and_leaves_when_its_stdin_ends_in_the_middle_of_a_search(
    vast_project: Path,
) -> None:
    editor = Editor()
    async with attached(editor, [COMMAND]) as connection:
        session = await opened(connection, vast_project)
        turn = asyncio.create_task(ask(connection, session, f"/search {NEEDLE}"))
        await editor.reached("agent_message_chunk")
        await editor.end_input()
        with pytest.raises(acp.RequestError) as answer:
            await turn
        assert answer.value.code == -32800
