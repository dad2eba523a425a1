"""`python -m acp_conformance client`: once as a process, and the rest by what that calls."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from acp_conformance.cli import main

from .table import FOLDER

SUITE = (sys.executable, "-m", "acp_conformance")


def conformance(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["client", *arguments])


def test_a_run_is_shown_and_written_and_its_exit_code_is_that_of_the_run(tmp_path: Path) -> None:
    clean = [sys.executable, str(FOLDER), "clean", "--line={agent}"]
    done = subprocess.run(
        [*SUITE, "client", "--case", "ids", "--json", tmp_path / "run.json", "--", *clean],
        capture_output=True,
        text=True,
        timeout=50,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert " passed in " in done.stdout
    run = json.loads((tmp_path / "run.json").read_text())
    assert (run["kind"], run["command"]) == ("client", clean)


def test_a_broken_must_is_exit_code_1() -> None:
    done = conformance("--case", "ids", "--", sys.executable, str(FOLDER), "messages/reads-ids-as-numbers", "{agent}")
    assert done.exit_code == 1
    assert "the request with the id '70007' was answered with the id 70007" in done.stdout


def test_what_cannot_be_run_is_exit_code_2() -> None:
    done = conformance("--case", "ids", "--", "no-such-program", "{agent}")
    assert done.exit_code == 2
    assert "no-such-program" in done.stdout


def test_the_cases_can_be_listed() -> None:
    done = conformance("--list", "--case", "permission/*")
    assert done.exit_code == 0
    assert "permission/cancelled" in done.stdout
    assert "[cancel]" in done.stdout
    assert "ids/" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "{agent}"),
        (["--", "client"], "{agent}"),
        (["--case", "dance", "--", "{agent}"], "no case fits 'dance'"),
        (["--profile", "nowhere", "--", "{agent}"], "no profile 'nowhere'"),
    ],
)
def test_a_mistake_in_the_command_line_is_told(arguments: list[str], complaint: str) -> None:
    done = conformance(*arguments)
    assert done.exit_code == 2
    assert complaint in done.stderr
