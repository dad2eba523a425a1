"""The guide to cancellation: its examples run, and its table is true."""

import anyio
import pytest

from acp_server import Agent, Cause, Turn
from acp_server.errors import REQUEST_CANCELLED
from tests.session.editor import CANCELLED, END_TURN, editing

from .blocks import DOCS, opened, run

pytestmark = pytest.mark.anyio


async def test_cancellation_cleanup() -> None:
    async with opened("cleanup", "cancellation.md") as (editor, session, example):
        id = await editor.prompt(session)
        await editor.client.expect(lambda message: "step 1" in str(message))
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        *steps, last = editor.said()
        assert last == f"Stopped after {len(steps)} steps.\n"
        assert editor.client.updates()[-1]["status"] == "failed"
        assert example["log"] == ["Cause.SESSION"]


async def test_cancellation_partial() -> None:
    async with editing(run("cancellation.md", "partial")["agent"]) as editor:
        assert await editor.client.result("_count/slowly", {"to": 2}) == {"counted": 2}
        id = await editor.client.request("_count/slowly", {"to": 10**9})
        await editor.settled()
        await editor.withdraw(id)
        assert (await editor.answer(id))["counted"] < 10**9


async def test_cancellation_timeout() -> None:
    async with opened("timeout", "cancellation.md") as (editor, session, _):
        id = await editor.prompt(session, "a.txt")
        asked = await editor.client.expect_request("fs/read_text_file")
        assert await editor.answer(id) == END_TURN
        assert editor.said() == ["The editor is busy."]
        assert editor.withdrawn() == [asked["id"]]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancellation_native() -> None:
    async with opened("native", "cancellation.md") as (editor, session, example):
        id = await editor.prompt(session, "why?")
        await editor.settled()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert example["cancels"] == ["why?"]


def cancels() -> list[list[str]]:
    """The rows of the table: who, how, what is cut, which answer, which cause."""
    text = (DOCS / "cancellation.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    return rows[1:]


def test_the_table_of_cancels_names_every_cause_from_outside() -> None:
    assert {row[4].strip("`") for row in cancels()} == {c.name for c in Cause if c is not Cause.FINISHED} | {"none"}


@pytest.mark.parametrize(
    "how", ["session/cancel", "$/cancel_request", "session/close", "session/delete", "session/load"]
)
@pytest.mark.parametrize("second", [False, True], ids=["once", "twice"])
async def test_the_table_of_cancels_is_true_of_what_a_client_does(how: str, second: bool) -> None:
    turns: list[Turn] = []
    async with editing(hanging(turns)) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        for _ in range(1 + second):
            if how == "$/cancel_request":
                await editor.withdraw(id)
            elif how == "session/cancel":
                await editor.cancel(session)
            else:
                await editor.client.request(how, {"sessionId": session, "cwd": "/project", "mcpServers": []})
        assert await editor.answer(id) == CANCELLED
        (row,) = [row for row in cancels() if f"`{how}`" in row[1] and ("prompt" in row[1] or "prompt" in row[3])]
        assert 'stopReason: "cancelled"' in row[3]
        assert f"`{turns[0].cause.name}`" == row[4]  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("how", ["USER", "TIMEOUT", "INTERRUPT", "SHUTDOWN", "CLOSED"])
async def test_the_table_of_cancels_is_true_of_what_others_do(how: str) -> None:
    turns: list[Turn] = []
    agent = hanging(turns)
    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        await editor.client.expect("session/update")
        if how in ("USER", "TIMEOUT"):
            turns[0].session.cancel(Cause[how])
        elif how == "INTERRUPT":
            assert agent.interrupt(editor.connection)
        elif how == "SHUTDOWN":
            editor.connection.close()
        else:
            editor.stream.end_input()
        answer = await editor.answer(id)
        assert turns[0].cause is Cause[how]
        # What one tool call comes to is shown elsewhere.
        rows = [row for row in cancels() if row[4] == f"`{how}`" and "tool call" not in row[2]]
        assert rows
        for row in [row for row in rows if "none can" not in row[3]]:
            assert answer == CANCELLED if "cancelled" in row[3] else answer["code"] == -32800 and "-32800" in row[3]


def hanging(turns: list[Turn]) -> Agent:
    agent = Agent("hanging")

    @agent.prompt
    async def hang(turn: Turn) -> None:
        turns.append(turn)
        await turn.say("begun")
        await anyio.sleep_forever()

    return agent


async def test_cancellation_watchdog() -> None:
    async with editing(run("cancellation.md", "watchdog")["agent"]) as editor:
        response = await editor.client.ask("_index/build", {"seconds": 0.01})
        assert response["error"]["code"] == REQUEST_CANCELLED
