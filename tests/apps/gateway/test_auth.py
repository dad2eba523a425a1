"""Tokens: the file they are read from, and what the command says about it."""

import errno
import hashlib
import os
import socket
from pathlib import Path

import pytest

from acp_server.apps.cli import main
from acp_server.apps.cli.gateway import TOKEN_VARIABLE, _command
from acp_server.apps.gateway.auth import PERMISSIONS, new_token, one_token, read_tokens
from acp_server.apps.gateway.errors import ApiError
from acp_server.apps.gateway.server import is_loopback
from acp_server.errors import UsageError

from .serving import ask, client, serving


def test_a_token_file_gives_names_and_permissions(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    digest = hashlib.sha256(b"pat_b").hexdigest()
    file.write_text(f"# who\n\nada  pat_a\nbob sha256:{digest} chat getChat\nada pat_c\n")
    tokens = read_tokens(file)
    ada, bob = tokens.caller("Bearer pat_a"), tokens.caller("bearer pat_b")
    assert (ada.name, ada.permissions) == ("ada", PERMISSIONS)
    assert (bob.name, bob.permissions) == ("bob", {"chat", "getChat"})
    assert tokens.caller("Bearer pat_c") == ada
    bob.need("chat")
    with pytest.raises(ApiError, match="cancelChat"):
        bob.need("cancelChat")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no token"),
        ("# none\n", "no token"),
        ("ada\n", ":1: expected a name and a token"),
        ("a x\nada pat_a chats\n", ":2: unknown permission chats"),
        ("ada sha256:12\n", "64 hexadecimal"),
        ("ada x\nbob x\n", "twice"),
    ],
)
def test_a_token_file_with_a_mistake_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(UsageError, match=why):
        read_tokens(file)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer nobody", "Basic pat_a", "pat_a"])
def test_what_is_no_known_token_is_nobody(header: str | None) -> None:
    with pytest.raises(ApiError, match="4100"):
        one_token("pat_a").caller(header)


def test_new_tokens_differ() -> None:
    assert new_token() != new_token()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.1", False),
        ("example.org", False),
    ],
)
def test_only_the_machine_itself_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--host", "0.0.0.0"], "add --token-file"),
        (["--agent", "no-such-program-anywhere"], "there is no program"),
        (["--agent", "agent.py"], "the command of an agent in Python is 'acp-server serve agent.py'"),
        (["--agent", "agent.py:mine x"], "the command of an agent in Python is 'acp-server serve agent.py:mine'"),
        (["--agent", "package.module:agent"], "agent in Python is 'acp-server serve package.module:agent'"),
        (["--agent", ""], "empty"),
        (["--agent", "'"], "cannot be split into the words of a command"),
        (["--bot", "x"], "expected ID=COMMAND"),
        (["--bot", "1=true", "--bot", "2=true", "--bot", "1=false"], "'1' is given twice"),
        (["--token-file", "/nowhere/at/all"], "cannot be read"),
        (["--host", "203.0.113.7", "--token-file", "{tokens}"], "cannot listen"),
        (["--store", "/nowhere/at/all"], "cannot be used"),
    ],
)
def test_a_command_that_cannot_work_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], why: str
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("ada pat_a\n")
    words = ["gateway", "--port", "0", "--log-file", str(tmp_path / "log")]
    assert main([*words, *(option.format(tokens=tokens) for option in options)]) == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1


def test_a_port_that_is_taken_is_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["gateway", "--port", str(port)]) == 2
    why = os.strerror(errno.EADDRINUSE)
    assert capsys.readouterr().err == f"acp-server: cannot listen on 127.0.0.1, port {port}: {why}\n"


@pytest.mark.parametrize("word", ["./agent", "agents/agent"])
def test_a_program_is_looked_for_where_the_command_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    program = tmp_path / word
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    assert _command(f"{word} --acp") == [str(program), "--acp"]


def test_the_token_of_the_gateway_is_not_in_the_environment_of_its_agents(tmp_path: Path) -> None:
    with (
        serving(tmp_path, token_file=False, env={TOKEN_VARIABLE: "pat_of_the_environment"}) as server,
        client(server, "pat_of_the_environment") as coze,
    ):
        poll = coze.chat.create_and_poll(**ask("environment"))
        assert poll.messages is not None
        names = poll.messages[0].content.split()
    assert "EAR" in names
    assert TOKEN_VARIABLE not in names
