"""How the commands end when standard output is closed, or has no room: the run goes on, and so do its reports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from acp_conformance.cli import main
from acp_conformance.core.output import outlived
from acp_conformance.report import jsonfile
from tests.conformance.report.runs import every_verdict
from tests.conformance.subjects import command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the devices and the statuses are those of POSIX")

FULL = Path("/dev/full")
SAID = "acp-conformance: cannot write: No space left on device\n"
AGENT = ["--", *command("serve()")]


def words(folder: Path, name: str) -> tuple[list[str], int]:
    """A command line that writes to standard output, and the exit code that it has when that takes everything."""
    kept = folder / "kept.json"
    jsonfile.write(every_verdict(), kept)
    return {
        "help": (["--help"], 0),
        "list": (["agent", "--list"], 0),
        "kept": (["agent", "--case", "ids/zero", "--no-prompts", *AGENT], 0),
        "broken": (["agent", "--case", "bad-input/method-no-string", "--no-prompts", *AGENT], 1),
        "compare": (["compare", str(kept), str(kept)], 0),
        "table": (["compare", "--table", "text", str(kept), str(kept)], 0),
    }[name]


NAMES = ["help", "list", "kept", "broken", "compare", "table"]


def ended(arguments: list[str], output: int) -> tuple[int, str]:
    """The exit code with this output, and what was said on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "acp_conformance", *arguments],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_that_has_gone_changes_no_exit_code_and_is_nothing_to_be_told_of(tmp_path: Path, name: str) -> None:
    arguments, code = words(tmp_path, name)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert ended(arguments, writer) == (code, "")
    finally:
        os.close(writer)


@pytest.mark.skipif(not FULL.exists(), reason="there is no such device here")
@pytest.mark.parametrize("name", NAMES)
def test_an_output_without_room_is_one_line_and_exit_code_2(tmp_path: Path, name: str) -> None:
    with FULL.open("wb") as full:
        assert ended(words(tmp_path, name)[0], full.fileno()) == (2, SAID)


def test_the_reports_are_written_without_a_reader(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"run.{kind}" for kind in ("json", "junit", "html", "markdown")}
    options = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert ended(["agent", *options, "--case", "bad-input/method-no-string", "--no-prompts", *AGENT], writer) == (
            1,
            "",
        )
    finally:
        os.close(writer)
    assert [case.id for case in jsonfile.read(files["json"]).cases] == ["bad-input/method-no-string"]
    assert all("method" in path.read_text("utf-8") for path in files.values())


def test_without_standard_output_a_block_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # As Python has it when the descriptor was closed before it started.
    monkeypatch.setattr(sys, "stdout", None)
    with outlived():
        sys.stdout.write("nowhere")
    assert sys.stdout is None


@pytest.mark.parametrize(
    "arguments", [["init", "--output"], ["agent", "--json"], ["client", "--html"]], ids=["init", "agent", "client"]
)
def test_a_file_without_a_folder_is_refused_before_anything_is_started(tmp_path: Path, arguments: list[str]) -> None:
    started = tmp_path / "started"
    started_by = [sys.executable, "-c", f"open({str(started)!r}, 'w')", "{agent}"]
    refused = CliRunner().invoke(main, [*arguments, str(tmp_path / "none" / "file"), "--", *started_by])
    assert refused.exit_code == 2
    assert "cannot write" in refused.output
    assert not started.exists()


@pytest.mark.skipif(not FULL.exists(), reason="there is no such device here")
def test_a_profile_that_cannot_be_written_is_a_mistake_that_is_named() -> None:
    agent = [sys.executable, "-m", "acp_server"]
    refused = CliRunner().invoke(main, ["init", "--timeout", "5", "--output", str(FULL), "--", *agent])
    assert refused.exit_code == 2
    assert "cannot write /dev/full: No space left on device" in refused.output
