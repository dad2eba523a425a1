"""The options of `acp-server gateway` as a file gives them, and its limits."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest

from acp_server.apps.cli import main
from acp_server.apps.cli.gateway import _settings, gateway
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.errors import UsageError


def given(*words: str) -> dict[str, Any]:
    return gateway.make_context("gateway", list(words)).params


@pytest.mark.parametrize("name", [each.name for each in fields(GatewayLimits)])
def test_each_limit_is_an_option_and_a_key_of_the_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / "gateway.toml"
    key = name.replace("_", "-")
    file.write_text(f"[limits]\n{key} = 7\n")
    assert _settings(given("--config", str(file))).limits == GatewayLimits(**{name: 7})
    assert _settings(given(f"--{key}", "7")).limits == GatewayLimits(**{name: 7})
    # The command line goes first.
    assert _settings(given("--config", str(file), f"--{key}", "8")).limits == GatewayLimits(**{name: 8})
    assert _settings(given()).limits == GatewayLimits()


def test_a_file_gives_what_the_command_line_would(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        "port = 8123\ncancel = 'drain'\nallow-origins = ['https://a.example.org']\nagent = 'true'\n"
        "[bots]\n7379 = 'false x'\n"
    )
    params = given("--config", str(file))
    settings = _settings(params)
    assert params["port"] == 8123
    assert (settings.cancel, settings.agent, settings.bots) == ("drain", ["true"], {"7379": ["false", "x"]})
    assert settings.allow_origins == ("https://a.example.org",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("porf = 1", "there is no option 'porf'"),
        ("[bots]\n1 = 'true'\na = 1", "bots: a: must be a string"),
        ("[limits]\nchat = 1", "there is no option 'limits.chat'"),
        ("chats = 1", "there is no option 'chats'"),
        ("check = true", "there is no option 'check'"),
        ("config = 'x'", "there is no option 'config'"),
        ("limits = 1", "limits must be a table"),
        ("[limits]\nchats = 'many'", "limits.chats: must be a number"),
        ("[limits]\nchats = true", "limits.chats: must be a number"),
        ("[limits]\nchats = 0", "limits.chats: 0 is not at least 1"),
        ("[limits]\nidle-seconds = inf", "limits.idle-seconds: inf is not"),
        ("[limits]\nidle-seconds = nan", "limits.idle-seconds: nan is not"),
        ("port = 99999999", "port: "),
        ("host = 1", "host: must be a string"),
        ("cancel = 'maybe'", "cancel: "),
        ("[agent]\nx = 'y'", "agent: must not be a table"),
        ("bots = 'x=y'", "bots: must be a list"),
        ("= 1", "cannot be read"),
    ],
)
def test_a_mistake_in_the_file_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        given("--config", str(file))
    assert str(file) in str(refused.value)
    assert why in str(refused.value)


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "inf"])
def test_a_number_that_bounds_nothing_is_refused(value: str) -> None:
    with pytest.raises(click.BadParameter):
        given("--chats", value)


@pytest.mark.parametrize("origin", ["example.org", "https://example.org/", "https://example.org/x", "null"])
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(UsageError, match="expected an origin without a path"):
        _settings(given("--allow-origin", origin))


def test_a_check_starts_every_agent_once_and_says_what_came_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "--check", "--agent", "false"]) == 1
    assert "every bot: cannot be used: the agent exited with status 1" in capsys.readouterr().out
    assert main(["gateway", "--check"]) == 0
    assert "every bot: acp-server " in capsys.readouterr().out


STEERING = "\x1b]52;c;aGk=\x07good\nevery bot: fine, ready in 0.0 s\x9b2J\u202e"


NAMED = f"""
from acp_server import Agent
agent = Agent({STEERING!r}, version={STEERING!r})
@agent.prompt
async def answer(turn): ...
agent.run()
"""


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (NAMED, 0),
        (f"import sys\nprint({STEERING!r}, file=sys.stderr)\nsys.exit(1)", 1),
    ],
    ids=["name", "last words"],
)
def test_what_an_agent_says_of_itself_steers_no_terminal_and_forges_no_line_of_a_check(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, program: str, code: int
) -> None:
    script = tmp_path / "agent.py"
    script.write_text(program)
    assert main(["gateway", "--check", "--agent", f"{sys.executable} {script}"]) == code
    said, *more = capsys.readouterr().out.splitlines()
    assert said.startswith("every bot: ")
    assert all(line.startswith("    ") for line in more)
    assert "good" in "".join(more) + said
    assert all(line.isprintable() for line in [said, *more])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--store", "mysql://x"], "neither a file nor a database that is known: postgresql://..."),
        (
            ["--node-url", "http://here:1"],
            "--node-url needs a database that several gateways share; add --store postgresql://...",
        ),
        (["--node-url", "http://here:1", "--store", "file"], "--node-url needs a database that several gateways share"),
    ],
)
def test_a_database_that_is_not_known_or_missing_is_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gateway", *words]) == 2
    assert why in capsys.readouterr().err


def test_a_node_with_a_database_may_say_where_it_is() -> None:
    assert _settings(given("--node-url", "http://here:1", "--store", "postgresql://x")).store == "postgresql://x"
