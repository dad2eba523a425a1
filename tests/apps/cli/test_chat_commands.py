"""What can be typed in `acp-server chat` beside prompts, at a terminal that it draws on."""

import stat
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from acp_server.apps.cli.chat.commands import show_sessions
from acp_server.apps.cli.output import StandardOutput
from acp_server.apps.cli.screen import Screen
from acp_server.schema import SessionInfo
from tests.apps.cli.drawn import ENTER, Drawn

Start = Callable[..., AbstractContextManager[Drawn]]
TALKER = "tests.apps.cli.talker:agent"
SETTLED = "tests.apps.cli.talker:settled"


@pytest.mark.parametrize("version", ["1", "2"])
def test_modes_and_options_are_shown_and_set_by_command(version: str, drawn: Start) -> None:
    with drawn("--protocol", version, SETTLED) as user:
        user.shows("settled 1")
        user.type("/mode" + ENTER)
        user.shows("* ask  Ask first", "  code  Go ahead")
        user.type("/mode co" + ENTER)
        user.shows("* code  Go ahead")
        user.type("/mode nosuch" + ENTER)
        user.shows("there is no mode 'nosuch'; known: ask, code")
        user.type("/config" + ENTER)
        user.shows("model = small  Model", "loud = off  Loud")
        user.type("/config model large" + ENTER)
        user.shows("model = large")
        user.type("/config loud on" + ENTER)
        user.shows("loud = on")
        user.type("/config loud maybe" + ENTER)
        user.shows("'maybe' is not a value of this option; use on or off")
        user.type("/quit" + ENTER)
        user.ends(0)


def test_slash_commands_are_completed_and_two_slashes_reach_those_of_the_agent(drawn: Start) -> None:
    with drawn(SETTLED) as user:
        user.shows("settled 1", "/search")
        user.type("/")
        user.shows("\n> /", "/help", "List the commands.", "/mode [MODE]")
        user.type("sea")
        user.hides("/mode [MODE]")
        user.type("\t")
        user.shows("\n> /search")
        user.type(ENTER)
        user.shows("You said /search.")
        user.type("/help" + ENTER)
        user.shows("Alt-Enter", "/resume", "Of the agent:", "/search")
        user.type("//help" + ENTER)
        user.shows("You said /help.")
        user.leave()


def test_what_was_typed_is_there_in_the_next_run_in_a_private_file(tmp_path: Path, drawn: Start) -> None:
    with drawn(TALKER, state=tmp_path / "state") as user:
        user.shows("Talker 7")
        user.type("remember me" + ENTER)
        user.shows("You said remember me.")
        user.leave()
    (file,) = (tmp_path / "state").rglob("chat_history")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with drawn(TALKER, state=tmp_path / "state") as user:
        user.shows("Talker 7")
        user.type("\x1b[A")
        user.shows("\n> remember me")
        user.type(ENTER)
        user.shows("You said remember me.")
        user.leave()


def test_sessions_are_listed_and_taken_up_again(tmp_path: Path, drawn: Start) -> None:
    (tmp_path / "notes.txt").write_text("needle\n")
    agent = [sys.executable, "-m", "acp_server", "serve", "--store", str(tmp_path / "sessions")]
    with drawn(*agent, cwd=tmp_path) as user:
        user.shows("/run")
        user.type("/read notes.txt" + ENTER)
        user.shows("needle", "\n>")
        user.leave()
    with drawn("--continue", *agent, cwd=tmp_path) as user:
        user.shows("> /read notes.txt", "needle")
        user.type("/new" + ENTER)
        user.shows("  session sess_")
        user.type("/read nosuch" + ENTER)
        user.shows("No such file")
        user.type("/sessions" + ENTER)
        user.shows("* 1) sess_", "/read nosuch", "  2) sess_", "/read notes.txt")
        user.type("/resume 2" + ENTER)
        user.shows("/resume 2", "> /read notes.txt", "needle", "  session sess_")
        user.leave()


def test_the_sessions_of_a_list_stand_one_below_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    named = SessionInfo(session_id="a", cwd="/", title="Bugs", updated_at="2026-01-02T03:04:05Z")
    sessions = [named, *[SessionInfo(session_id="b", cwd="/")] * 9]
    show_sessions(Screen(StandardOutput()), sessions, "a", datetime(2026, 2, 2, tzinfo=UTC))
    shown = capsys.readouterr().out.splitlines()
    assert (shown[0], shown[1], shown[9]) == ("  *  1) a  2026-01-02 03:04  Bugs", "     2) b", "    10) b")


@pytest.mark.parametrize(
    ("then", "shown"),
    [
        ("2026-01-20T12:00:00Z", "just now"),
        ("2026-01-20T13:30:00+02:00", "30 min ago"),
        ("2026-01-20T09:00:00Z", "3 h ago"),
        ("2026-01-15T12:00:00Z", "5 days ago"),
        ("2025-11-15T12:34:56Z", "2025-11-15 12:34"),
        ("yesterday", "yesterday"),
    ],
)
def test_a_session_of_a_list_has_its_age(capsys: pytest.CaptureFixture[str], then: str, shown: str) -> None:
    info = SessionInfo(session_id="a", cwd="/", title="Bugs", updated_at=then)
    show_sessions(Screen(StandardOutput()), [info], now=datetime(2026, 1, 20, 12, 0, 30, tzinfo=UTC))
    assert capsys.readouterr().out == f"    1) a  {shown}  Bugs\n"
