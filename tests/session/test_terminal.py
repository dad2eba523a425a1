"""Terminals are killed and released, wherever in their life the turn is stopped and whatever the client does."""

import asyncio
from typing import Any

import anyio
import pytest

from acp_server import Agent, RpcError, Turn
from acp_server.errors import MalformedResponse, UsageError
from acp_server.session import terminal as module
from acp_server.session.terminal import words_of
from tests.peer.ends import until
from tests.session.editor import CANCELLED, END_TURN, Editor, editing

pytestmark = pytest.mark.anyio

BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request"])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients get little time to answer a kill or a release."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)


def runner() -> tuple[Agent, list[Any]]:
    """An agent that runs a command, and what came of it."""
    agent = Agent("runs")
    outcomes: list[Any] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text == "other":
            await turn.say("Done.")
            return
        async with await turn.client.create_terminal("make") as terminal:
            outcomes.append(terminal)
            if turn.text == "busy":
                await anyio.sleep_forever()
            status = await terminal.wait_for_exit()
            outcomes.append((status.exit_code, status.signal))
            outcomes.append((await terminal.output()).output)
            with pytest.raises(UsageError, match=r"a list, as in \['hello'\]"):
                await turn.client.create_terminal("echo", "hello")
            if turn.text == "release":
                await terminal.release()
                await terminal.release()

    return agent, outcomes


async def stop(editor: Editor, session: str, id: Any, by: str) -> None:
    await (editor.cancel(session) if by == "session" else editor.withdraw(id))


def scripted_terminals(editor: Editor, **answers: Any) -> None:
    output = {"output": "some", "truncated": False}
    scripted = {"create": {"terminalId": "t1"}, "kill": {}, "output": output, "release": {}, **answers}
    for method, result in scripted.items():
        editor.client.answer(f"terminal/{method}", result)


@pytest.mark.parametrize("text", ["go", "release"])
async def test_a_command_that_ends_by_itself_is_released_once_and_not_killed(text: str) -> None:
    agent, outcomes = runner()
    async with editing(agent) as editor:
        scripted_terminals(editor, wait_for_exit={"exitCode": 2}, output={"output": "text", "truncated": False})
        session = await editor.open()
        assert await editor.ask(session, text) == END_TURN
        assert outcomes[1:] == [(2, None), "text"]
        assert editor.asked("terminal/") == [
            "terminal/create",
            "terminal/wait_for_exit",
            "terminal/output",
            "terminal/release",
        ]
        release = editor.client.all("terminal/release")[0]
        assert release["params"] == {"sessionId": session, "terminalId": "t1"}


@BOTH_CANCELS
@pytest.mark.behaviour("F10", "F12", "C9")
async def test_a_cancel_while_the_command_runs_withdraws_the_wait_then_kills_then_releases_then_answers(
    by: str,
) -> None:
    agent, _ = runner()
    async with editing(agent) as editor:
        scripted_terminals(editor)
        session = await editor.open()
        id = await editor.prompt(session)
        waiting = await editor.client.expect("terminal/wait_for_exit")
        await stop(editor, session, id, by)
        assert await editor.answer(id) == CANCELLED
        assert [m.get("method", "answer") for m in editor.client.received[-5:]] == [
            "$/cancel_request",
            "terminal/kill",
            "terminal/output",
            "terminal/release",
            "answer",
        ]
        assert editor.withdrawn() == [waiting["id"]]
        # Its late answer is nobody's.
        await editor.client.respond(waiting, {"exitCode": 0})
        assert await editor.ask(session, "other") == END_TURN


@BOTH_CANCELS
@pytest.mark.behaviour("F10")
async def test_a_cancel_while_something_else_is_awaited_kills_and_releases_too(by: str) -> None:
    agent, outcomes = runner()
    async with editing(agent) as editor:
        scripted_terminals(editor)
        session = await editor.open()
        id = await editor.prompt(session, "busy")
        await editor.client.expect("terminal/create")
        await editor.settled()
        await stop(editor, session, id, by)
        assert await editor.answer(id) == CANCELLED
        assert editor.asked("terminal/") == ["terminal/create", "terminal/kill", "terminal/output", "terminal/release"]
        assert len(outcomes) == 1


@BOTH_CANCELS
@pytest.mark.parametrize("late", [{"terminalId": "t9"}, {}, None, "error"])
@pytest.mark.behaviour("F11", "C4")
async def test_a_terminal_that_comes_into_being_after_the_cancel_is_released(
    by: str, late: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agent, outcomes = runner()
    async with editing(agent) as editor:
        editor.client.answer("terminal/kill", {})
        editor.client.answer("terminal/release", {})
        session = await editor.open()
        id = await editor.prompt(session)
        creating = await editor.client.expect("terminal/create")
        await stop(editor, session, id, by)
        assert await editor.answer(id) == CANCELLED
        assert editor.withdrawn() == [creating["id"]]
        if late == "error":
            await editor.client.refuse(creating, -32800)
        else:
            await editor.client.respond(creating, late)
        if late == {"terminalId": "t9"}:
            released = await editor.client.expect("terminal/release")
            assert released["params"] == {"sessionId": session, "terminalId": "t9"}
        assert await editor.ask(session, "other") == END_TURN
        assert not outcomes
        assert not editor.asked("terminal/kill")
    assert not caplog.records


@BOTH_CANCELS
@pytest.mark.parametrize("order", ["answer first", "cancel first"])
@pytest.mark.behaviour("F11", "E6", "C4")
async def test_a_terminal_that_comes_into_being_in_one_read_with_the_cancel_is_released(by: str, order: str) -> None:
    agent, _ = runner()
    async with editing(agent) as editor:
        editor.client.answer("terminal/kill", {})
        editor.client.answer("terminal/release", {})
        session = await editor.open()
        id = await editor.prompt(session)
        creating = await editor.client.expect("terminal/create")
        created = {"jsonrpc": "2.0", "id": creating["id"], "result": {"terminalId": "t9"}}
        cancel = (
            editor.cancelling(session)
            if by == "session"
            else {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}
        )
        await editor.client.send(*([created, cancel] if order == "answer first" else [cancel, created]))
        assert await editor.answer(id) == CANCELLED
        released = await editor.client.expect("terminal/release")
        assert released["params"]["terminalId"] == "t9"
        assert len(editor.asked("terminal/release")) == 1


@pytest.mark.parametrize("fault", ["error", "malformed"])
@pytest.mark.behaviour("F13")
async def test_a_kill_or_release_that_fails_changes_nothing_about_the_answer(fault: str) -> None:
    agent, _ = runner()
    async with editing(agent) as editor:
        editor.client.answer("terminal/create", {"terminalId": "t1"})
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("terminal/wait_for_exit")
        await editor.cancel(session)
        for method in ("terminal/kill", "terminal/release"):
            asked = await editor.client.expect(method)
            if fault == "error":
                await editor.client.refuse(asked, -32603, "unknown terminal")
            else:
                await editor.client.send({"jsonrpc": "2.0", "id": asked["id"], "error": "what?"})
        assert await editor.answer(id) == CANCELLED
        assert len(editor.asked("terminal/")) == 4


@pytest.mark.usefixtures("impatient")
@pytest.mark.behaviour("F13", "F22", "C10")
async def test_a_client_that_never_answers_kill_and_release_does_not_hold_the_answer() -> None:
    agent, _ = runner()
    async with editing(agent) as editor:
        editor.client.answer("terminal/create", {"terminalId": "t1"})
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("terminal/wait_for_exit")
        with anyio.fail_after(2):
            await editor.cancel(session)
            assert await editor.answer(id) == CANCELLED
        assert editor.asked("terminal/")[2:] == ["terminal/kill", "terminal/release"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.behaviour("F13", "K7")
async def test_a_client_that_does_not_read_when_a_terminal_is_let_go_is_told_when_it_reads_again() -> None:
    agent, _ = runner()
    async with editing(agent) as editor:
        scripted_terminals(editor)
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("terminal/wait_for_exit")
        editor.stream.stall_sending()
        await editor.cancel(session)
        with anyio.fail_after(5):
            # The kill and the release wait in vain; then the prompt is through.
            await until(lambda: not editor.connection.tree.size)
        editor.stream.release()
        assert await editor.answer(id) == CANCELLED
        await editor.client.expect("terminal/release")
        assert editor.asked("terminal/").count("terminal/release") == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.behaviour("F13", "D4")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_terminal_of_a_native_task_is_released_however_often_that_is_cancelled() -> None:
    agent = Agent("native")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async def run() -> None:
            async with await turn.client.create_terminal("make"):
                await anyio.sleep_forever()

        # The cancel of the turn is passed on to it in every round of the loop, past all shields.
        await asyncio.ensure_future(run())

    async with editing(agent) as editor:
        editor.client.answer("terminal/create", {"terminalId": "t1"})
        editor.client.answer("terminal/release", {})
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("terminal/create")
        await editor.client.barrier()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        await editor.client.expect("terminal/release")


@pytest.mark.behaviour("F13", "G8")
async def test_a_client_that_goes_away_does_not_hold_up_the_cleanup() -> None:
    agent, outcomes = runner()
    async with editing(agent) as editor:
        editor.client.answer("terminal/create", {"terminalId": "t1"})
        await editor.prompt(await editor.open())
        await editor.client.expect("terminal/wait_for_exit")
        with anyio.fail_after(2):
            editor.stream.end_input()
            await editor.client.wait_ended()
    assert len(outcomes) == 1


@pytest.mark.behaviour("F10")
async def test_a_release_that_is_cancelled_is_done_again_when_the_block_is_left() -> None:
    agent = Agent("releases")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with await turn.client.create_terminal("make") as terminal:
            await terminal.kill()
            await terminal.release()

    async with editing(agent) as editor:
        editor.client.answer("terminal/create", {"terminalId": "t1"})
        editor.client.answer("terminal/kill", {})
        session = await editor.open()
        id = await editor.prompt(session)
        first = await editor.client.expect("terminal/release")
        await editor.cancel(session)
        again = await editor.client.expect("terminal/release")
        assert editor.withdrawn() == [first["id"]]
        await editor.client.respond(again, {})
        assert await editor.answer(id) == CANCELLED
        assert editor.asked("terminal/") == ["terminal/create", "terminal/kill"] + ["terminal/release"] * 2


@pytest.mark.behaviour("F10", "B17")
async def test_every_terminal_of_a_turn_is_let_go_at_once() -> None:
    agent = Agent("many")

    async def run(turn: Turn) -> None:
        async with await turn.client.create_terminal("make") as terminal:
            await terminal.wait_for_exit()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(run, turn)

    async with editing(agent) as editor:
        scripted_terminals(editor, create=lambda request: {"terminalId": f"t{request['id']}"})
        session = await editor.open()
        id = await editor.prompt(session)
        for _ in range(3):
            await editor.client.expect("terminal/wait_for_exit")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        created = sorted(f"t{message['id']}" for message in editor.client.all("terminal/create"))
        for method in ("terminal/kill", "terminal/release"):
            assert sorted(m["params"]["terminalId"] for m in editor.client.all(method)) == created


@pytest.mark.parametrize(
    ("method", "use"),
    [
        ("terminal/output", lambda terminal: terminal.output()),
        ("terminal/wait_for_exit", lambda terminal: terminal.wait_for_exit()),
        ("terminal/kill", lambda terminal: terminal.kill()),
    ],
)
@pytest.mark.parametrize("answer", [{"result": 7}, {"error": {"code": -31000, "message": "no"}}])
async def test_what_the_client_gets_wrong_is_an_error_where_it_is_asked(method: str, use: Any, answer: Any) -> None:
    agent = Agent("asks")
    errors: list[Exception] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with await turn.client.create_terminal("make") as terminal:
            try:
                await use(terminal)
            except Exception as error:
                errors.append(error)

    async with editing(agent) as editor:
        scripted_terminals(editor)
        editor.client._answers.pop(method, None)
        id = await editor.prompt(await editor.open())
        asked = await editor.client.expect(method)
        await editor.client.send({"jsonrpc": "2.0", "id": asked["id"], **answer})
        if method == "terminal/kill" and "error" in answer:
            # It may still run, so it is killed again.
            await editor.client.respond(await editor.client.expect(method), {})
        assert await editor.answer(id) == END_TURN
        if "error" in answer:
            assert isinstance(errors[0], RpcError)
        elif method == "terminal/kill":
            # Nothing that anybody would look at.
            assert not errors
        else:
            assert isinstance(errors[0], MalformedResponse)
        assert editor.asked("terminal/")[-1] == "terminal/release"


async def test_output_says_whether_the_command_has_ended() -> None:
    agent = Agent("asks")
    seen: list[Any] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with await turn.client.create_terminal("make") as terminal:
            response = await terminal.output()
            seen.append((response.output, response.truncated, response.exit_status))

    async with editing(agent) as editor:
        session = await editor.open()
        ended = {"output": "all", "truncated": True, "exitStatus": {"signal": "SIGKILL"}}
        scripted_terminals(editor, output={"output": "so", "truncated": False})
        assert await editor.ask(session) == END_TURN
        scripted_terminals(editor, output=ended)
        assert await editor.ask(session) == END_TURN
        assert seen[0] == ("so", False, None)
        assert (seen[1][0], seen[1][1], seen[1][2].signal) == ("all", True, "SIGKILL")
        assert editor.asked("terminal/").count("terminal/kill") == 1


def test_arguments_that_are_one_string_are_refused() -> None:
    assert words_of("echo", ["hello"]) == ["echo", "hello"]
    with pytest.raises(UsageError, match=r"a list, as in \['hello'\], not one string"):
        words_of("echo", "hello")
