"""Terminals of the agent's own, which the client shows and may cancel (version 2)."""

import sys
from base64 import b64decode
from typing import Any

import anyio
import pytest

from acp_server import Agent, InvalidParams, SessionClosed, Terminal, ToolContext, Turn
from acp_server.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, UsageError
from acp_server.schema import Terminal as Anchor
from acp_server.schema import v2
from tests.session.v2.editor import Editor, editing

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="commands of a POSIX system")]

HANGS = ["-c", "printf begun; exec sleep 1000"]


class Shop:
    """An agent that runs commands."""

    def __init__(self) -> None:
        self.agent = Agent("shop")
        self.terminals: list[Terminal] = []
        self.results: list[Any] = []
        self.turns: list[Turn] = []
        self.left = anyio.Event()
        """Lets the agent let go of what has ended."""
        self.agent.tool(self.sh)
        self.agent.prompt(self.prompt)

    async def prompt(self, turn: Turn) -> None:
        self.turns.append(turn)
        match turn.text:
            case "no such program":
                with pytest.raises(InvalidParams, match="cannot be started: No such file"):
                    await turn.client.create_terminal("/no/such/program")
                with pytest.raises(UsageError, match=r"a list, as in \['hello'\]"):
                    await turn.client.create_terminal("echo", "hello")
            case "leave it":
                self.terminals.append(await turn.client.create_terminal("sh", HANGS, cwd="/"))
            case "hang":
                async with await turn.client.create_terminal("sh", HANGS, cwd="/") as terminal:
                    self.terminals.append(terminal)
                    self.results.append(await terminal.wait_for_exit())
                    await self.left.wait()
            case script:
                self.results.append(await turn.call("sh", script=script))

    async def sh(self, call: ToolContext, script: str) -> str:
        async with await call.client.create_terminal(
            "sh", ["-c", script], cwd="/", env={"WORD": "env"}, output_byte_limit=6
        ) as terminal:
            call.progress(Anchor(terminal_id=terminal.id))
            ended = await terminal.wait_for_exit()
            output = await terminal.output()
            assert output.exit_status == ended
            return f"{ended.exit_code} {ended.signal} {output.output} {output.truncated}"


def shown(editor: Editor, session: str) -> v2.TerminalRecord:
    (found,) = [thing for (kind, _), thing in editor.record(session).things.items() if kind == "terminal"]
    assert isinstance(found, v2.TerminalRecord)
    return found


def stopping(session: str, terminal: str) -> dict[str, str]:
    return {"sessionId": session, "terminalId": terminal}


async def running(editor: Editor, text: str) -> tuple[str, str]:
    """A session, and its terminal, whose command runs."""
    session = await editor.open()
    await editor.answer(await editor.prompt(session, text))
    chunk = await editor.until(session, "terminal_output_chunk")
    assert b64decode(chunk["data"]) == b"begun"
    return session, chunk["terminalId"]


async def test_a_command_is_shown_from_its_start_to_its_end_in_the_call_that_runs_it() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, "printf 'one\\n'; printf $WORD >&2; exit 3") == {"stopReason": "end_turn"}
        assert shop.results == ["3 None ne\nenv True"]
        terminal = shown(editor, session)
        assert bytes(terminal.output) == b"one\nenv"
        told = terminal.told.to_wire()
        assert told["command"] == """sh -c 'printf '"'"'one\\n'"'"'; printf $WORD >&2; exit 3'"""
        assert (told["cwd"], told["exitStatus"]) == ("/", {"exitCode": 3})
        assert "capabilities" not in told
        (call,) = editor.calls(session)
        assert {"type": "terminal", "terminalId": told["terminalId"]} in call["content"]


async def test_bytes_that_are_no_text_are_shown_as_they_come() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session = await editor.open()
        await editor.ask(session, "printf '\\377\\303'")
        assert bytes(shown(editor, session).output) == b"\xff\xc3"


async def test_a_command_that_cannot_be_started_makes_no_terminal() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, "no such program") == {"stopReason": "end_turn"}
        assert not [key for key in editor.record(session).things if key[0] == "terminal"]


@pytest.mark.behaviour("M13")
async def test_to_cancel_a_terminal_ends_its_command_and_nothing_else() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session, terminal = await running(editor, "hang")
        first = next(one for one in editor.client.updates(session) if one["sessionUpdate"] == "terminal_update")
        assert first["capabilities"] == {"cancel": {}}
        assert await editor.client.result("terminal/cancel", stopping(session, terminal)) == {}
        ended = await editor.until(session, "terminal_update", capabilities=None)
        assert ended["exitStatus"] == {"signal": "SIGTERM"}
        assert editor.reasons(session) == ["running"]
        # It is there until its author lets go of it, but it cannot be cancelled again.
        refused = await editor.refusal("terminal/cancel", stopping(session, terminal))
        assert refused["code"] == INVALID_PARAMS
        assert (await shop.terminals[0].output()).output == "begun"
        shop.left.set()
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        assert [result.signal for result in shop.results] == ["SIGTERM"]


@pytest.mark.behaviour("M13")
async def test_a_call_whose_terminal_is_cancelled_ends_as_its_tool_says() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session, terminal = await running(editor, "printf begun; exec sleep 1000")
        await editor.client.result("terminal/cancel", stopping(session, terminal))
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        (call,) = editor.calls(session)
        assert call["status"] == "completed"
        assert shop.results == ["None SIGTERM begun False"]


@pytest.mark.behaviour("M13")
@pytest.mark.parametrize("id", ["unknown", 7, None])
async def test_what_is_no_terminal_of_the_session_cannot_be_cancelled(id: Any) -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session, terminal = await running(editor, "hang")
        other = await editor.open()
        assert (await editor.refusal("terminal/cancel", stopping(session, id)))["code"] == INVALID_PARAMS
        assert (await editor.refusal("terminal/cancel", stopping(other, terminal)))["code"] == INVALID_PARAMS
        unknown = await editor.refusal("terminal/cancel", stopping("unknown", terminal))
        assert (unknown["code"], unknown["data"]) == (RESOURCE_NOT_FOUND, {"sessionId": "unknown"})
        await editor.cancel(session)
        assert await editor.idle(session) == {"stopReason": "cancelled"}


@pytest.mark.behaviour("M2", "M13")
async def test_a_cancel_of_the_session_ends_the_commands_of_its_work_before_its_idle() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session, _ = await running(editor, "hang")
        await editor.cancel(session)
        assert await editor.idle(session) == {"stopReason": "cancelled"}
        kinds = [one["sessionUpdate"] for one in editor.client.updates(session)]
        assert kinds[-2:] == ["terminal_update", "state_update"]
        assert shown(editor, session).told.to_wire()["exitStatus"] == {"signal": "SIGTERM"}


@pytest.mark.behaviour("M2", "M9", "M13")
async def test_a_command_that_outlives_its_turn_goes_on_until_the_session_is_closed() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session, _ = await running(editor, "leave it")
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        await editor.cancel(session)
        await editor.settled()
        assert "exitStatus" not in shown(editor, session).told.to_wire()
        assert await editor.client.result("session/close", {"sessionId": session}) == {}
        assert shown(editor, session).told.to_wire()["exitStatus"] == {"signal": "SIGTERM"}
        assert editor.client.received[-1].get("result") == {}
        with pytest.raises(SessionClosed):
            await shop.turns[0].client.create_terminal("true")


async def test_the_end_of_the_connection_ends_its_commands() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        await running(editor, "leave it")
        editor.stream.end_input()
        await editor.client.wait_ended()
    assert shop.terminals[0]._command.exit == (None, "SIGTERM")  # pyright: ignore[reportAttributeAccessIssue]


async def test_it_can_be_killed_and_released_by_its_author() -> None:
    shop = Shop()
    async with editing(shop.agent) as editor:
        session, terminal = await running(editor, "leave it")
        (own,) = shop.terminals
        await own.kill()
        assert (await own.wait_for_exit()).signal == "SIGTERM"
        for _ in range(2):
            await own.release()
        refused = await editor.refusal("terminal/cancel", stopping(session, terminal))
        assert refused["code"] == INVALID_PARAMS
        exits = [one for one in editor.client.updates(session) if "exitStatus" in one]
        assert len(exits) == 1
