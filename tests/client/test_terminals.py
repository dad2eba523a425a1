"""Commands as real processes: output, exit, kill, release, and nothing left behind."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from acp_server.client import Handlers, LocalTerminals
from acp_server.client.local import OUTPUT_BYTES
from acp_server.schema import CreateTerminalRequest
from tests.client.processes import PATIENCE, Ear, gone
from tests.client.talking import SESSION, Scripted, talking

pytestmark = pytest.mark.anyio


class Shell:
    """The agent's end, with words for terminals."""

    def __init__(self, peer: Scripted) -> None:
        self.peer = peer

    async def create(self, *words: str, **more: Any) -> str:
        params = {"sessionId": SESSION, "command": words[0], "args": list(words[1:]), **more}
        return (await self.peer.result("terminal/create", params))["terminalId"]

    async def python(self, code: str, **more: Any) -> str:
        return await self.create(sys.executable, "-S", "-u", "-c", code, **more)

    async def ask(self, what: str, id: str) -> Any:
        return await self.peer.result(f"terminal/{what}", {"sessionId": SESSION, "terminalId": id})

    async def error(self, what: str, id: str) -> Any:
        return (await self.peer.ask(f"terminal/{what}", {"sessionId": SESSION, "terminalId": id}))["error"]["code"]

    async def shows(self, id: str, text: str) -> Any:
        """Its output, once it has `text` in it, which is on the way."""
        with anyio.fail_after(PATIENCE):
            while text not in (output := await self.ask("output", id))["output"]:
                pass
        return output


SLEEP = "import time; time.sleep(60)"


def tell(ear: Ear, what: str) -> str:
    """Python that tells the test the values of an expression."""
    return f"print({what}, file=open({ear.path!r}, 'w'))"


@asynccontextmanager
async def shell(**options: Any) -> AsyncIterator[Shell]:
    async with talking(Handlers(terminals=LocalTerminals(**options))) as (_, peer):
        yield Shell(peer)


async def test_a_command_runs_and_its_output_and_status_can_be_asked_for_until_it_is_released() -> None:
    async with shell() as agent:
        id = await agent.python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
        assert await agent.ask("wait_for_exit", id) == {"exitCode": 3}
        assert await agent.ask("output", id) == {
            "output": "out\nerr\n",
            "truncated": False,
            "exitStatus": {"exitCode": 3},
        }
        assert await agent.ask("release", id) == {}
        for what in ("output", "wait_for_exit", "kill", "release"):
            assert await agent.error(what, id) == -32002


async def test_output_can_be_seen_while_the_command_runs(ear: Ear) -> None:
    async with shell() as agent:
        id = await agent.python(f"print('ready'); open({ear.path!r}, 'w').write('x\\n'); {SLEEP}")
        await ear.line()
        assert await agent.shows(id, "ready") == {"output": "ready\n", "truncated": False}


async def test_the_command_gets_its_folder_and_variables_and_nothing_to_read(tmp_path: Path) -> None:
    async with shell(env={"A": "1", "B": "1"}) as agent:
        code = "import os, sys; print(os.getcwd(), os.environ['A'], os.environ['B'], repr(sys.stdin.read()))"
        variables = [{"name": "B", "value": "2"}]
        id = await agent.python(code, cwd=str(tmp_path), env=variables)
        await agent.ask("wait_for_exit", id)
        assert (await agent.ask("output", id))["output"] == f"{tmp_path} 1 2 ''\n"


async def test_a_whole_command_line_without_arguments_is_read_by_a_shell() -> None:
    async with shell() as agent:
        id = await agent.create("echo one && echo two | tr t T; exit 4")
        assert await agent.ask("wait_for_exit", id) == {"exitCode": 4}
        assert (await agent.ask("output", id))["output"] == "one\nTwo\n"
    async with shell(shell=None) as agent:
        params = {"sessionId": SESSION, "command": "echo one && echo two"}
        assert (await agent.peer.ask("terminal/create", params))["error"]["code"] == -32602


@pytest.mark.parametrize(
    "params", [{"command": "no-such-program", "args": ["x"]}, {"command": "ls", "cwd": "here"}, {"command": "a\0b"}]
)
async def test_what_cannot_be_started_is_refused(params: dict[str, Any]) -> None:
    async with shell() as agent:
        response = await agent.peer.ask("terminal/create", {"sessionId": SESSION, **params})
        assert response["error"]["code"] == -32602


async def test_output_over_the_limit_loses_its_beginning_at_a_whole_character() -> None:
    async with shell(output_bytes=7) as agent:
        id = await agent.python("import sys; sys.stdout.buffer.write('a€b€c€'.encode())", outputByteLimit=6)
        await agent.ask("wait_for_exit", id)
        assert await agent.ask("output", id) == {"output": "c€", "truncated": True, "exitStatus": {"exitCode": 0}}
        id = await agent.python("import sys; sys.stdout.buffer.write('a€b€c€'.encode())")
        await agent.ask("wait_for_exit", id)
        assert (await agent.ask("output", id))["output"] == "€c€"


async def test_a_command_that_never_stops_writing_costs_a_bounded_amount_of_memory(ear: Ear) -> None:
    async with shell() as agent:
        code = f"print('x' * {2 * OUTPUT_BYTES}); open({ear.path!r}, 'w').write('x\\n')\nwhile True: print('y' * 1000)"
        id = await agent.python(code)
        await ear.line()
        output = await agent.shows(id, "y")
        assert output["truncated"]
        assert len(output["output"]) <= OUTPUT_BYTES
        await agent.ask("kill", id)
        assert (await agent.ask("output", id))["exitStatus"] == {"signal": "SIGTERM"}


async def test_kill_ends_the_command_with_what_it_started_and_keeps_the_terminal(ear: Ear) -> None:
    async with shell() as agent:
        code = f"import subprocess; p = subprocess.Popen(['sleep', '60']); print('here'); {tell(ear, 'p.pid')}; {SLEEP}"
        id = await agent.python(code)
        waiting = await agent.peer.request("terminal/wait_for_exit", {"sessionId": SESSION, "terminalId": id})
        pids = await ear.pids()
        assert await agent.ask("kill", id) == {}
        assert (await agent.peer.response(waiting))["result"] == {"signal": "SIGTERM"}
        gone(*pids)
        assert await agent.ask("output", id) == {
            "output": "here\n",
            "truncated": False,
            "exitStatus": {"signal": "SIGTERM"},
        }
        assert await agent.ask("kill", id) == {}


async def test_a_command_that_ignores_the_terminate_signal_is_killed(ear: Ear) -> None:
    async with shell() as agent:
        code = f"import signal; signal.signal(15, signal.SIG_IGN); {tell(ear, '0')}; {SLEEP}"
        id = await agent.python(code)
        await ear.line()
        await agent.ask("kill", id)
        assert (await agent.ask("output", id))["exitStatus"] == {"signal": "SIGKILL"}


@pytest.mark.behaviour("G17")
async def test_the_end_of_the_connection_ends_every_command_and_what_it_started(ear: Ear) -> None:
    pids: list[int] = []
    async with shell() as agent:
        for _ in range(3):
            await agent.python(f"import os; p = os.fork()\nif p: {tell(ear, 'os.getpid(), p')}\n{SLEEP}")
            pids += await ear.pids()
    assert len(set(pids)) == 6
    gone(*pids)


async def test_release_ends_what_the_command_left_running() -> None:
    async with shell() as agent:
        id = await agent.create("sh", "-c", "sleep 60 & echo $!")
        assert await agent.ask("wait_for_exit", id) == {"exitCode": 0}
        pid = int((await agent.ask("output", id))["output"])
        assert psutil.pid_exists(pid)
        await agent.ask("release", id)
        gone(pid)


async def test_a_command_has_not_ended_before_what_it_left_writing_is_read() -> None:
    code = (
        "import os, time; parent = os.getpid()\n"
        "if not os.fork():\n"
        "  while os.getppid() == parent: pass\n"
        "  time.sleep(0.05); print('late')"
    )
    async with shell() as agent:
        id = await agent.python(code)
        await agent.ask("wait_for_exit", id)
        assert (await agent.ask("output", id))["output"] == "late\n"


async def test_waiting_for_the_exit_can_be_withdrawn_and_leaves_the_command_running(ear: Ear) -> None:
    async with shell() as agent:
        id = await agent.python(f"{tell(ear, '0')}; {SLEEP}")
        await ear.line()
        waiting = await agent.peer.request("terminal/wait_for_exit", {"sessionId": SESSION, "terminalId": id})
        await agent.peer.notify("$/cancel_request", {"requestId": waiting})
        assert (await agent.peer.response(waiting))["error"]["code"] == -32800
        assert "exitStatus" not in await agent.ask("output", id)


async def test_no_more_output_is_kept_than_the_program_allows_whatever_the_agent_asks_for() -> None:
    async with shell(output_bytes=1000) as agent:
        for asked, kept in ((10**12, 1000), (200, 200)):
            id = await agent.python("print('x' * 5000, end='y')", outputByteLimit=asked)
            await agent.ask("wait_for_exit", id)
            output = await agent.ask("output", id)
            assert output["output"] == "x" * (kept - 1) + "y"
            assert output["truncated"]


async def test_one_more_command_than_allowed_takes_the_place_of_one_that_has_ended_or_is_refused(ear: Ear) -> None:
    async with shell(commands=2) as agent:
        running = await agent.python(f"{tell(ear, '0')}; {SLEEP}")
        await ear.line()
        ended = await agent.create("true")
        await agent.ask("wait_for_exit", ended)
        other = await agent.create("sleep", "60")
        assert await agent.error("output", ended) == -32002
        params = {"sessionId": SESSION, "command": "true"}
        refused = await agent.peer.ask("terminal/create", params)
        assert (refused["error"]["code"], refused["error"]["data"]) == (-32603, {"limit": "commands"})
        for id in (running, other):
            assert "exitStatus" not in await agent.ask("output", id)
        await agent.ask("release", other)
        assert await agent.create("true")


async def test_commands_that_are_started_at_the_same_time_keep_the_bound() -> None:
    async with shell(commands=2) as agent:
        params = {"sessionId": SESSION, "command": "sleep", "args": ["60"]}
        requests = [agent.peer.new_request("terminal/create", params) for _ in range(20)]
        await agent.peer.send(*requests)
        answers = [await agent.peer.response(request["id"]) for request in requests]
        assert len([answer for answer in answers if "result" in answer]) == 2


@pytest.mark.behaviour("B17")
async def test_a_terminal_whose_creation_is_withdrawn_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    terminals = LocalTerminals()
    request = CreateTerminalRequest(session_id=SESSION, command="sleep", args=["60"])
    started: list[int] = []
    really = anyio.open_process

    async def open_process(*args: Any, **options: Any) -> Any:
        process = await really(*args, **options)
        started.append(process.pid)
        scope.cancel()
        return process

    monkeypatch.setattr(anyio, "open_process", open_process)
    with anyio.CancelScope() as scope:
        await terminals.create(request)
    assert scope.cancelled_caught
    assert len(started) == 1
    gone(*started)


@pytest.mark.parametrize("ticks", range(12))
async def test_a_cancel_at_any_moment_of_starting_a_command_leaves_no_process(ticks: int) -> None:
    terminals = LocalTerminals()
    request = CreateTerminalRequest(session_id=SESSION, command="sleep", args=["60"])

    async def cancel() -> None:
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(cancel)
            await terminals.create(request)
    await terminals.aclose()


@pytest.mark.parametrize("what", ["output", "wait_for_exit", "kill", "release"])
async def test_of_a_long_id_that_no_terminal_has_the_beginning_is_repeated(what: str) -> None:
    async with shell() as agent:
        params = {"sessionId": SESSION, "terminalId": "t" * 100_000}
        refused = (await agent.peer.ask(f"terminal/{what}", params))["error"]
        assert refused["data"] == {"terminalId": "t" * 200}
