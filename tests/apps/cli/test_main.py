"""The commands, and what is said of a wrong command line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import acp_server
from acp_server.apps.cli import main
from acp_server.apps.cli.commands import commands
from acp_server.schema.features import PUBLISHED
from tests.agent.processes.driver import environment


def test_each_command_is_there_with_the_words_that_the_overview_has_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert main(["-h"]) == 0
    assert capsys.readouterr().out == overview
    for name in ("serve", "chat", "demo", "record", "trace", "schema"):
        assert f"\n  {name} " in overview
        assert main([name, "--help"]) == 0
        described = capsys.readouterr().out
        assert described.startswith(f"Usage: acp-server {name} ")
        assert main([name, "-h"]) == 0
        assert capsys.readouterr().out == described
        command = commands.get_command(None, name)  # pyright: ignore[reportArgumentType]
        assert command is not None
        assert command.name == name


VERSION = f"acp-server {acp_server.__version__} (ACP schema of {PUBLISHED.date})\n"


def test_the_version_is_that_of_the_package_and_of_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == VERSION


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "There is no command 'nosuch'"),
        (["serve", "a", "b"], "unexpected extra argument"),
        (["--nosuch"], "--nosuch"),
        (["serve", "--backend", "curio"], "'curio' is not one of 'asyncio', 'trio'"),
        (["serve", "--log-level", "loud"], "'loud' is not one of"),
        (["trace"], "Missing argument 'FILE'"),
        (["trace", "no/such/file"], "'no/such/file' does not exist"),
        (["doctor", ""], "the name of the agent is empty: expected FILE.py, module:attribute or a command"),
        (["demo", "no/such/folder"], "'no/such/folder' does not exist"),
        (["doctor", "--timeout", "-1", "cat"], "Invalid value for '--timeout': -1 is not greater than 0"),
        (["doctor", "--timeout", "0", "cat"], "Invalid value for '--timeout': 0 is not greater than 0"),
        (["package", "--timeout", "nan"], "Invalid value for '--timeout': nan is not greater than 0"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_it_runs_as_a_module_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "acp_server", "--version"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == VERSION


def test_the_overview_imports_no_command() -> None:
    code = (
        "import sys; from acp_server.apps.cli import main; main(['--help'])\n"
        "print([name for name in sys.modules if name.startswith('acp_server.apps.cli.') or name == 'anyio'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.splitlines()[-1] == "['acp_server.apps.cli.output', 'acp_server.apps.cli.commands']"


def test_serving_imports_nothing_of_the_other_commands() -> None:
    code = (
        "import sys; from acp_server.apps.cli import main; main([])\n"
        "unwanted = 'acp_server.client acp_server.testing acp_server.apps.cli.screen click trio rich'.split()\n"
        "print([name for name in unwanted if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="",
        env=environment(),
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stderr == "[]\n"


def test_the_schema_command_checks_and_writes(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path)
    assert main(["schema", "--check", folder]) == 1
    assert "stale: " in capsys.readouterr().err
    assert main(["schema", folder]) == 0
    assert main(["schema", "--check", folder]) == 0


def test_a_chat_that_looks_at_the_options_of_serve_leaves_them_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = commands.get_command(None, "serve")  # pyright: ignore[reportArgumentType]
    # What click remembers of a command that has been looked at before.
    monkeypatch.setattr(serve, "_help_option", None)
    agent = tmp_path / "agent.py"
    agent.write_text("")
    assert main(["chat", "-p", "hi", str(agent), "extra", "words"]) == 2
    assert main(["serve", "-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage: acp-server serve ")


def test_schema_files_that_cannot_be_written_are_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["schema", str(tmp_path / "file" / "x")]) == 2
    assert re.fullmatch(r"acp-server: cannot write .*: Not a directory\n", capsys.readouterr().err)
