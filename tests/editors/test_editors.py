"""The programs of `make editors` can be read, and its page says what they show. The editors are not started here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from acp_server import Agent
from acp_server.agent.record import Recorder
from acp_server.apps.cli.target import load

from . import EDITORS
from .editor import HERE, Editor
from .steps import AUTHOR, BUILT_IN
from .table import table
from .wire import Wire

PAGE = (HERE.parents[1] / "docs" / "editors.md").read_text("utf-8")


def test_the_page_has_the_table_of_what_each_editor_shows() -> None:
    assert table() in PAGE


@pytest.mark.parametrize("kind", EDITORS.values(), ids=EDITORS)
def test_an_editor_shows_something_at_steps_that_there_are(kind: type[Editor]) -> None:
    assert set(kind.shows) <= {*AUTHOR, *BUILT_IN}
    assert all(name in PAGE for name in (kind.name, *kind.plugins))


@pytest.mark.parametrize("kind", EDITORS.values(), ids=EDITORS)
def test_a_program_or_a_plugin_that_is_missing_is_named(kind: type[Editor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr("tests.editors.editor.PLUGINS", Path("/nowhere"))
    assert kind.missing() == ["tmux", *kind.programs, *(f"/nowhere/{plugin}" for plugin in kind.plugins)]


def test_the_agent_that_the_editors_drive_can_be_served() -> None:
    agent, _ = load(str(HERE / "author_agent.py"))
    assert isinstance(agent, Agent)
    assert [tool["name"] for tool in agent.tools.describe()] == ["change", "wait"]


@pytest.mark.skipif(not shutil.which("nvim"), reason="nvim is not here")
@pytest.mark.parametrize("script", sorted(HERE.glob("*.lua")), ids=lambda script: script.name)
def test_the_scripts_for_neovim_parse(script: Path) -> None:
    command = ["nvim", "--clean", "--headless", "-c", f"lua assert(loadfile([[{script}]]))", "-c", "qa"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.skipif(not shutil.which("emacs"), reason="emacs is not here")
@pytest.mark.parametrize("script", sorted(HERE.glob("*.el")), ids=lambda script: script.name)
def test_the_scripts_for_emacs_parse(script: Path) -> None:
    read = f'(with-temp-buffer (insert-file-contents "{script}") (emacs-lisp-mode) (check-parens))'
    subprocess.run(["emacs", "-Q", "--batch", "--eval", read], capture_output=True, check=True)


def test_what_was_said_is_read_from_a_recording(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "wire.ndjson")
    recorder.add("in", b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}\n')
    wire = Wire(tmp_path / "wire.ndjson")
    assert wire.answers("session/prompt") == []
    recorder.add("in", b'{"jsonrpc":"2.0","method":"session/cancel","params":{}}\n')
    recorder.add("out", b'{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}\n')
    assert wire.prompt_ends() == "cancelled"
    assert 0 <= wire.stopped_within() < 1
    wire.forget()
    assert wire.lines() == []
    recorder.close()
