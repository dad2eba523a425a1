"""The output of a command that ran in a turn is shown when its session is taken up again, in either version."""

import sys
from base64 import b64decode
from typing import Any

import pytest

from acp_server import Agent, ToolContext, Turn
from acp_server.schema import Terminal
from acp_server.schema.v2 import TerminalRecord
from tests.session import editor as v1
from tests.session.v2 import editor as v2

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="commands of a POSIX system")]

START = {"type": "start"}
AS_TEXT = [{"type": "content", "content": {"type": "text", "text": "~~~\ndone\n~~~"}}]


def maker() -> Agent:
    agent = Agent("maker")

    @agent.tool
    async def make(call: ToolContext) -> None:
        async with await call.client.create_terminal("echo", ["done"]) as terminal:
            call.progress(Terminal(terminal_id=terminal.id))
            await terminal.wait_for_exit()
            await terminal.output()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.call(make)

    return agent


async def made_by_the_client(agent: Agent) -> str:
    """A session in which the client of version 1 has run a command."""
    async with v1.editing(agent) as editor:
        for method, result in {
            "create": {"terminalId": "t1"},
            "wait_for_exit": {"exitCode": 0},
            "output": {"output": "done\n", "truncated": False, "exitStatus": {"exitCode": 0}},
            "release": {},
        }.items():
            editor.client.answer(f"terminal/{method}", result)
        session = await editor.open()
        assert await editor.ask(session) == v1.END_TURN
        assert {"type": "terminal", "terminalId": "t1"} in editor.client.updates(session)[-1]["content"]
    return session


async def made_by_the_agent(agent: Agent) -> str:
    """A session in which the agent has run a command, for a client of version 2."""
    async with v2.editing(agent) as editor:
        session = await editor.open("/")
        assert await editor.ask(session) == {"stopReason": "end_turn"}
    return session


def contents(updates: list[dict[str, Any]]) -> list[Any]:
    return [update["content"] for update in updates if "toolCallId" in update]


@pytest.mark.parametrize("made", [made_by_the_client, made_by_the_agent])
async def test_a_client_of_version_1_that_loads_the_session_is_shown_the_output_as_text(made: Any) -> None:
    agent = maker()
    session = await made(agent)
    async with v1.editing(agent) as editor:
        await editor.client.result("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        assert contents(editor.client.updates(session)) == [AS_TEXT]


@pytest.mark.parametrize("made", [made_by_the_client, made_by_the_agent])
async def test_a_client_of_version_2_that_resumes_it_is_shown_the_terminal_with_its_output(made: Any) -> None:
    agent = maker()
    session = await made(agent)
    async with v2.editing(agent) as editor:
        await editor.client.result("session/resume", {"sessionId": session, "cwd": "/", "replayFrom": START})
        (shown,) = [one for one in editor.client.updates(session) if one["sessionUpdate"] == "terminal_update"]
        assert b64decode(shown["output"]["data"]) == b"done\n"
        assert shown["command"] == "echo done"
        assert shown["exitStatus"] == {"exitCode": 0}
        assert contents(editor.client.updates(session)) == [[{"type": "terminal", "terminalId": shown["terminalId"]}]]
        assert editor.record(session).things.keys() >= {("terminal", shown["terminalId"])}


async def test_what_a_replay_shows_of_a_terminal_is_what_the_client_was_shown_while_it_ran() -> None:
    async with v2.editing(maker()) as editor:
        session = await editor.open("/")
        await editor.ask(session)
        live = editor.record(session)
        seen = len(editor.client.updates())
        await editor.client.result("session/resume", {"sessionId": session, "cwd": "/", "replayFrom": START})
        editor.client.received[:] = [m for m in editor.client.received if m.get("method") == "session/update"][seen:]
        again = editor.record(session)
        (key,) = [key for key in live.things if key[0] == "terminal"]
        before, after = live.things[key], again.things[key]
        assert isinstance(before, TerminalRecord)
        assert isinstance(after, TerminalRecord)
        assert after.output == before.output == b"done\n"
        assert after.told == before.told


async def test_what_a_command_has_printed_that_was_stopped_with_its_turn_is_shown_again() -> None:
    agent = maker()
    async with v1.editing(agent) as editor:
        killed = {"output": "begun\n", "truncated": False, "exitStatus": {"signal": "SIGTERM"}}
        for method, result in {"create": {"terminalId": "t1"}, "kill": {}, "output": killed, "release": {}}.items():
            editor.client.answer(f"terminal/{method}", result)
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("terminal/wait_for_exit")
        await editor.cancel(session)
        assert await editor.answer(id) == v1.CANCELLED
        assert editor.asked("terminal/")[2:] == ["terminal/kill", "terminal/output", "terminal/release"]
        await editor.client.result("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        again = [one for one in editor.client.updates(session) if one["sessionUpdate"] == "tool_call"][-1]
        assert again["content"] == [{"type": "content", "content": {"type": "text", "text": "~~~\nbegun\n~~~"}}]
