"""/run: a command that was allowed, its output as it comes, and nothing of it left, however it ends."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from acp_server import Limits
from acp_server.apps.coder import agent
from acp_server.peer.writer import HIGH_WATER
from tests.session.editor import CANCELLED, END_TURN

from .client import PERMISSION, TERMINALS, asked, chosen
from .talk import Talk, nothing_worth_a_warning, project, talking

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="commands of a POSIX shell")]
BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request", "tool"])


@asynccontextmanager
async def running(project: Path, capabilities: dict[str, Any] | None = None) -> AsyncGenerator[tuple[Talk, str]]:
    """A conversation with a user who allows everything."""
    async with talking(capabilities=capabilities) as talk:
        talk.client.answer(PERMISSION, chosen("allow_once"))
        yield talk, await talk.open(str(project))


async def cancel(talk: Talk, by: str, session: str, id: int) -> None:
    if by == "tool":
        call = next(m for m in talk.client.received if "toolCallId" in str(m))
        params = {"sessionId": session, "toolCallId": call["params"]["update"]["toolCallId"]}
        await talk.client.result("_tool_call/cancel", params)
    else:
        await (talk.cancel(session) if by == "session" else talk.withdraw(id))


async def gone(pid: int) -> None:
    """Wait until no such process runs."""
    with anyio.fail_after(10):
        while _runs(pid):  # noqa: ASYNC110 - nobody is told of the end of a process that is not its child
            await anyio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, FileNotFoundError):  # It may end while it is looked at.
        return False


def output(call: dict[str, Any]) -> str:
    return "".join(piece["content"]["text"] for piece in call["content"] if piece["type"] == "content")


async def test_the_command_is_shown_before_it_runs_and_does_not_run_without_a_yes(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/run touch made && echo `ls`")
        question = await asked(talk)
        call = question["params"]["toolCall"]
        assert (call["title"], call["kind"]) == ("Run `` touch made && echo `ls` ``", "execute")
        said = f"Run this in `{project}`?\n\n~~~~\ntouch made && echo `ls`\n~~~~\n"
        assert call["content"][0]["content"]["text"] == said
        await talk.client.respond(question, chosen("reject_once"))
        told = await talk.told(session, id)
        assert told.text == "It was not allowed, so it was not run.\n"
        assert not (project / "made").exists()


# As a process of the agent's


async def test_output_is_shown_as_it_comes_in_a_block_and_the_exit_code_at_the_end(project: Path) -> None:
    os.mkfifo(project / "go")
    async with running(project) as (talk, session):
        id = await talk.prompt(
            session, "/run echo one; cat go >&2; printf '~~~~\\n\\033[31mred\\033[0m '; ls README.md"
        )
        await talk.client.expect(lambda m: "~~~~\\none\\n~~~~" in repr(m))
        async with await anyio.open_file(project / "go", "w") as go:
            await go.write("two\n")
        told = await talk.told(session, id)
        said = "~~~~~\none\ntwo\n~~~~\nred README.md\n~~~~~\nIt ended with exit code 0.\n"
        assert (told.answer, told.text) == (END_TURN, said)
        shown = "~~~~~\none\ntwo\n~~~~\nred README.md\n~~~~~\nIt ended with exit code 0."
        assert output(told.call) == shown
        assert told.call["status"] == "completed"
        assert told.output == {"exitCode": 0, "signal": None}


@pytest.mark.parametrize(
    ("command", "said", "raw"),
    [
        ("exit 3", "It ended with exit code 3.", {"exitCode": 3, "signal": None}),
        ("kill -9 $$", "It was ended by SIGKILL.", {"exitCode": None, "signal": "SIGKILL"}),
        ("no-such-program", "It ended with exit code 127.", {"exitCode": 127, "signal": None}),
    ],
)
async def test_a_command_that_does_not_end_well_has_failed(
    project: Path, command: str, said: str, raw: dict[str, Any]
) -> None:
    async with running(project) as (talk, session):
        told = await talk.tell(session, f"/run {command}")
        assert (told.answer, told.text.splitlines()[-1]) == (END_TURN, said)
        assert (told.call["status"], told.output) == ("failed", raw)


async def test_a_command_that_cannot_be_started_says_why(project: Path) -> None:
    async with running(project) as (talk, session):
        told = await talk.tell(session, "/run true\0")
        assert told.text == "The command cannot be started: not a possible command\n"


@BOTH_CANCELS
@pytest.mark.parametrize(
    "script",
    [
        "echo begun $$; exec sleep 600",
        "echo begun $$; trap '' TERM; sleep 600; sleep 600",
        "sleep 600 & echo begun $!; wait",
    ],
    ids=["one that ends", "one that does not want to", "one with a child"],
)
async def test_a_cancel_ends_the_command_with_all_it_has_started_and_keeps_the_output(
    project: Path, by: str, script: str
) -> None:
    async with running(project) as (talk, session):
        id = await talk.prompt(session, f"/run {script}")
        begun = await talk.client.expect(
            lambda m: "~~~~\\nbegun" in str(m.get("params", {}).get("update", {}).get("content"))
        )
        pid = int(output(begun["params"]["update"]).split()[2])
        await cancel(talk, by, session, id)
        told = await talk.told(session, id)
        assert told.answer == (END_TURN if by == "tool" else CANCELLED)
        assert told.call["status"] == "failed"
        kept = f"~~~~\nbegun {pid}\n~~~~\nIt was stopped. Its output so far is kept."
        assert output(told.call) == kept
        assert told.text == f"~~~~\nbegun {pid}\n~~~~\nIt was stopped.\n"
        await gone(pid)


async def test_what_a_command_has_left_running_ends_with_it(project: Path) -> None:
    async with running(project) as (talk, session):
        told = await talk.tell(session, "/run sleep 600 & echo $!")
        assert told.text.endswith("\n~~~~\nIt ended with exit code 0.\n")
        await gone(int(output(told.call).split()[1]))


async def test_a_client_that_goes_away_leaves_no_command_behind(project: Path) -> None:
    async with running(project) as (talk, session):
        await talk.prompt(session, "/run echo begun $$; sleep 600; true")
        begun = await talk.client.expect(
            lambda m: "~~~~\\nbegun" in str(m.get("params", {}).get("update", {}).get("content"))
        )
        talk.stream.end_input()
        await gone(int(output(begun["params"]["update"]).split()[2]))
        await talk.until(lambda: talk.connection.tree.size == 0)


async def test_of_long_output_the_end_is_kept(project: Path) -> None:
    async with running(project) as (talk, session):
        told = await talk.tell(session, "/run seq 1 100000")
        said = output(told.call)
        assert "99999\n100000\n~~~~\n" in said
        assert said.startswith("~~~~\n[earlier output is left out]\n")
        assert len(said) < 2.2 * Limits().output


async def test_a_command_that_never_stops_to_talk_can_be_cancelled(project: Path) -> None:
    async with running(project) as (talk, session):
        id = await talk.prompt(session, "/run yes")
        await talk.client.expect(lambda m: "y\\ny" in repr(m))
        await talk.cancel(session)
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert len(output(told.call)) < 3 * Limits().output


async def test_a_command_waits_for_a_client_that_does_not_read_and_can_be_cancelled_then(project: Path) -> None:
    async with running(project) as (talk, session):
        id = await talk.prompt(session, "/run echo begun $$; exec yes")
        begun = await talk.client.expect(
            lambda m: "~~~~\\nbegun" in str(m.get("params", {}).get("update", {}).get("content"))
        )
        talk.stream.stall_sending()
        # Nothing else here waits for room, and what is not read fills the pipe of the command.
        await talk.until(lambda: talk.connection.writer._room is not None)
        assert talk.connection.writer.size > HIGH_WATER
        await talk.cancel(session)
        await gone(int(output(begun["params"]["update"]).split()[2]))
        talk.stream.release()
        assert (await talk.told(session, id)).answer == CANCELLED


# In a terminal of the client's


class Terminals:
    """The client's terminals, as far as they are asked for."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        talk.client.answer("terminal/create", {"terminalId": "term_1"})
        talk.client.answer("terminal/output", {"output": "hello\n", "truncated": False, "exitStatus": {"exitCode": 0}})
        for method in ("terminal/kill", "terminal/release"):
            talk.client.answer(method, {})

    def methods(self) -> list[str]:
        return self.talk.asked("terminal/")


@pytest.mark.parametrize(
    ("ended", "status", "said"),
    [
        ({"exitCode": 0}, "completed", "It ended with exit code 0."),
        ({"exitCode": 2}, "failed", "It ended with exit code 2."),
        ({"signal": "SIGTERM"}, "failed", "It was ended by SIGTERM."),
        ({}, "failed", "It was ended by something else."),
    ],
)
async def test_with_a_client_that_has_terminals_the_command_runs_in_one(
    project: Path, ended: dict[str, Any], status: str, said: str
) -> None:
    async with running(project, TERMINALS) as (talk, session):
        terminals = Terminals(talk)
        talk.client.answer("terminal/wait_for_exit", ended)
        told = await talk.tell(session, "/run echo hello")
        assert told.text == f"{said}\n"
        created = talk.client.all("terminal/create")[0]["params"]
        assert (created["command"], created["args"], created["cwd"]) == ("sh", ["-c", "echo hello"], str(project))
        assert told.call["content"][0] == {"type": "terminal", "terminalId": "term_1"}
        assert told.call["status"] == status
        assert told.output["output"] == "hello\n"
        assert terminals.methods()[-1] == "terminal/release"


@BOTH_CANCELS
async def test_a_cancel_kills_and_releases_the_terminal_and_leaves_it_in_the_call(
    project: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client sends the output, however busy the machine is.
    monkeypatch.setattr("acp_server.apps.coder.run._LISTEN", 30.0)
    async with running(project, TERMINALS) as (talk, session):
        terminals = Terminals(talk)
        id = await talk.prompt(session, "/run sleep 600")
        waiting = await asked(talk, "terminal/wait_for_exit")
        await cancel(talk, by, session, id)
        told = await talk.told(session, id)
        assert told.answer == (END_TURN if by == "tool" else CANCELLED)
        assert told.call["status"] == "failed"
        assert told.call["content"][0] == {"type": "terminal", "terminalId": "term_1"}
        assert talk.withdrawn() == [waiting["id"]]
        assert terminals.methods()[-3:] == ["terminal/kill", "terminal/output", "terminal/release"]
        assert told.text == "It was stopped.\n"
        record = await agent.store.load(session)
        assert record is not None
        (turn,) = record.turns
        (result,) = turn.tool_results
        assert result.message == "hello\n[It was stopped. Its output so far is kept.]"
        assert "hello" in str(list(turn.replay()))
        assert ("hello" in str(turn.messages())) is (by != "tool")
        await talk.client.refuse(waiting, -32800)


async def test_a_command_has_ended_well_although_nobody_says_what_it_has_printed(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(project, TERMINALS) as (talk, session):
        terminals = Terminals(talk)
        talk.client.leave_unanswered("terminal/output")
        talk.client.answer("terminal/wait_for_exit", {"exitCode": 0})
        id = await talk.prompt(session, "/run true")
        await talk.client.refuse(await asked(talk, "terminal/output"), -32603, "Forgotten")
        told = await talk.told(session, id)
        assert (told.text, told.call["status"]) == ("It ended with exit code 0.\n", "completed")
        assert told.output == {"exitCode": 0, "signal": None}
        assert terminals.methods()[-1] == "terminal/release"
    assert "Forgotten" in caplog.text
    caplog.clear()


async def test_a_terminal_that_cannot_be_had_is_a_failure_that_says_why(project: Path) -> None:
    async with running(project, TERMINALS) as (talk, session):
        id = await talk.prompt(session, "/run true")
        # What the data names is for the log, and not for the user or the model.
        error = {"code": -32603, "message": "No more windows", "data": {"path": "/secret"}}
        await talk.client.send({"jsonrpc": "2.0", "id": (await asked(talk, "terminal/create"))["id"], "error": error})
        told = await talk.told(session, id)
        assert told.text == "The client's terminal failed: No more windows (-32603)\n"
        assert told.call["status"] == "failed"


async def test_a_command_that_no_system_would_run_is_not_asked_about(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        await talk.tell(session, "/run true " + "x" * 200_000)
        assert not talk.asked(PERMISSION)


async def test_after_always_no_question_is_left_in_the_call(project: Path) -> None:
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_always"))
        session = await talk.open(str(project))
        for _ in range(2):
            told = await talk.tell(session, "/run echo hello")
            assert "Run this in" not in str(told.call["content"])
        assert len(talk.asked(PERMISSION)) == 1


async def shown_terminal(project: Path, capabilities: dict[str, Any], command: str) -> list[dict[str, Any]]:
    """What a client is told of a command that draws a terminal and has none: the updates of its call with `_meta`."""
    async with running(project, {"_meta": capabilities}) as (talk, session):
        told = await talk.told(session, await talk.prompt(session, f"/run {command}"))
        assert told.answer == END_TURN
        updates = [update for update in talk.client.updates() if "toolCallId" in update]
        call: dict[str, Any] = {}
        for update in updates:
            call |= update
        assert call["content"][0] == {"type": "terminal", "terminalId": call["toolCallId"]}
        assert "two" not in str(call["content"])
        assert (call["status"], call["rawOutput"]["output"]) == ("completed", "one\ntwo\n")
        return [update["_meta"] for update in updates if "terminal" in str(update.get("_meta"))]


async def test_a_client_that_draws_what_is_new_gets_it_as_it_comes(project: Path) -> None:
    first, *pieces, last = await shown_terminal(project, {"terminal_output_delta": True}, "echo one; echo two")
    assert list(first) == ["terminal_info"]
    assert "".join(piece["terminal_output_delta"]["data"] for piece in pieces) == "one\ntwo\n"
    assert last["terminal_output"]["data"] == "one\ntwo\n"
    assert last["terminal_exit"] == {**first["terminal_info"], "exit_code": 0, "signal": None}


async def test_a_client_that_draws_all_of_it_gets_that_once(project: Path) -> None:
    metas = await shown_terminal(project, {"terminal_output": True}, "echo one; echo two")
    assert [list(meta) for meta in metas] == [["terminal_info"], ["terminal_output", "terminal_exit"]]


@pytest.mark.parametrize("by", ["session", "tool"])
async def test_a_drawn_terminal_ends_with_a_cancel_too(project: Path, by: str) -> None:
    async with running(project, {"_meta": {"terminal_output_delta": True}}) as (talk, session):
        id = await talk.prompt(session, "/run echo begun; exec sleep 1000")
        await talk.client.expect(lambda message: "begun\\n" in str(message))
        await cancel(talk, by, session, id)
        await talk.told(session, id)
        ends = [update for update in talk.client.updates() if "terminal_exit" in str(update.get("_meta"))]
        assert len(ends) == 1
        assert ends[0]["_meta"]["terminal_exit"]["exit_code"] is None
