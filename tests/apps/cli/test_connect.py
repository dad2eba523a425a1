"""`acp-server connect`: an agent on another machine, as a program that an editor starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from acp_server.apps.cli.chat import chat
from acp_server.apps.cli.connect import connect
from acp_server.apps.cli.target import agent_command
from acp_server.client import AgentExited, RemoteAgent, spawn_agent
from acp_server.errors import InternalError, UsageError
from tests.client.processes import PATIENCE, gone
from tests.remote.client import Request, Server, serving
from tests.remote.client.talking import answer, chunk, opened, texts

COMMAND = [sys.executable, "-m", "acp_server", "connect"]


def bridge(server: Server, *options: str) -> RemoteAgent:
    return spawn_agent([*COMMAND, *options, server.url], on_stderr=lambda _: None)


@pytest.mark.anyio
async def test_an_editor_uses_a_remote_agent_as_if_it_were_local() -> None:
    with anyio.fail_after(2 * PATIENCE):
        async with serving() as server:
            async with bridge(server) as agent:
                await agent.initialize()
                session = await opened(server, agent)
                async with session.prompt("x") as turn:
                    asked = await server.post("session/prompt")
                    events = await server.stream("s1")
                    await events.say(chunk("one "))
                    await anext(turn)
                    turn.cancel()
                    await server.post("session/cancel")
                    await events.say(answer(asked.message["id"], {"stopReason": "cancelled"}))
                    assert await texts(turn) == []
                assert turn.stop_reason == "cancelled"
            assert len(server.deletes) == 1
            assert agent.process is not None
            assert agent.process.exit_code == 0


@pytest.mark.anyio
async def test_a_line_that_is_lost_is_said_to_the_editor_and_on_standard_error() -> None:
    said = list[str]()
    with anyio.fail_after(2 * PATIENCE):
        async with serving() as server, spawn_agent([*COMMAND, server.url], on_stderr=said.append) as agent:
            await agent.initialize()
            session = await opened(server, agent)
            async with session.prompt("x") as turn:
                await server.post("session/prompt")
                await (await server.stream("s1")).cut()
                with pytest.raises(InternalError, match="broke, and messages are lost"):
                    await texts(turn)
            with pytest.raises(AgentExited, match="status 1"):
                await agent.new_session("/")
    assert [line for line in said if line.startswith("acp-server: the connection to http://127.0.0.1:")]


@pytest.mark.anyio
@pytest.mark.parametrize("victim", ["bridge", "editor"])
async def test_neither_side_leaves_the_bridge_behind(victim: str) -> None:
    with anyio.fail_after(2 * PATIENCE):
        async with serving() as server:
            async with bridge(server) as agent:
                await agent.initialize()
                assert agent.process is not None
                pid = agent.process.pid
                if victim == "bridge":
                    os.kill(pid, signal.SIGKILL)
                    with pytest.raises(AgentExited, match="signal 9"):
                        await agent.new_session("/")
            if victim == "editor":
                # It has closed its pipes, as a process that was killed does.
                await server.until(lambda: server.deletes)
            gone(pid)


@pytest.mark.anyio
async def test_an_editor_that_reads_no_more_has_left() -> None:
    with anyio.fail_after(2 * PATIENCE):
        async with serving() as server:
            await anyio.to_thread.run_sync(read_no_more, server.url)
            assert len(server.deletes) == 1


def read_no_more(url: str) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, url], stdin=pipe, stdout=pipe, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n')
        assert b"protocolVersion" in process.stdout.readline()
        # Its other pipe stays open.
        process.stdout.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.anyio
async def test_a_signal_ends_it_and_the_server_is_told() -> None:
    with anyio.fail_after(2 * PATIENCE):
        async with serving() as server, bridge(server) as agent:
            await agent.initialize()
            assert agent.process is not None
            os.kill(agent.process.pid, signal.SIGTERM)
            with pytest.raises(AgentExited, match=f"status {128 + signal.SIGTERM}"):
                await agent.new_session("/")
            assert len(server.deletes) == 1


@pytest.mark.anyio
async def test_the_token_of_a_file_and_the_headers_go_with_each_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    with anyio.fail_after(2 * PATIENCE):
        async with serving() as server:
            async with bridge(server, "--token-file", str(token), "--header", "X-Team: a: b") as agent:
                await agent.initialize()
                await server.stream()
            requests: list[Request] = [*server.posts, *server.gets, *server.deletes]
            named = {(each.headers["authorization"], each.headers["x-team"]) for each in requests}
            assert named == {("Bearer secret", "a: b")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["ftp://a"], "the address of an agent must begin with"),
        (["--header", "secret", "http://a"], "--header must be NAME:VALUE"),
        (["--header", "A: b\nc", "http://a"], "must be one line"),
        (["--token-file", "missing", "http://a"], "missing cannot be read: No such file"),
        (["--cacert", "missing", "https://a"], "cannot read certificates from missing"),
        (["--key", "missing", "https://a"], "--key needs --cert"),
    ],
)
def test_a_mistake_is_said_in_one_line_that_shows_no_secret(
    options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        def __enter__(self) -> "Nothing":
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("acp_server.apps.cli.connect.StandardIO", Nothing)
    monkeypatch.setattr("acp_server.apps.cli.connect.configure_log", lambda *_: None)
    result = CliRunner().invoke(connect, options)
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)
    assert "secret" not in str(result.exception)


def test_an_address_is_an_agent_wherever_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    command = agent_command(["https://user:secret@host/acp?key=secret", "--token-file", "t"])
    assert command.words == [*COMMAND, "--token-file", "t", "--", "https://user:secret@host/acp?key=secret"]
    assert command.name == "https://host"
    assert agent_command(["unix:agent.sock"]).words[-1] == f"unix:{tmp_path / 'agent.sock'}"


def test_options_of_chat_may_stand_behind_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []

    def run(command: Any, *_: Any, **__: Any) -> Any:
        heard.append(command)
        raise UsageError("as far as this")

    monkeypatch.setattr("acp_server.apps.cli.chat.agent_command", run)
    for words in (
        ["keep:x", "-p", "hello", "--token-file", "t", "--header", "a:b"],
        ["-p", "hello", "keep:x", "--token-file", "t", "--header", "a:b"],
        # The options of a program are its own.
        ["program", "-p", "hello", "keep:x"],
    ):
        CliRunner().invoke(chat, words)
    assert heard == [
        ("keep:x", "--token-file", "t", "--header", "a:b"),
        ("keep:x", "--token-file", "t", "--header", "a:b"),
        ("program", "-p", "hello", "keep:x"),
    ]
