"""acpx, a client of others on the command line, drives the example of release notes."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.subjects import COMMAND

ACPX = Path(__file__).parent / "node" / "node_modules" / ".bin" / "acpx"
NOTES = Path(__file__).parents[2] / "examples" / "notes.py"

pytestmark = pytest.mark.skipif(
    not (ACPX.exists() and shutil.which("node")), reason="acpx is not installed: make test-integrations"
)


@pytest.mark.parametrize(
    ("answer", "written"), [("--approve-all", "## Notes\n\n- Second\n- First\n\n"), ("--deny-all", "")]
)
def test_notes_are_written_with_approval_alone(tmp_path: Path, answer: str, written: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for command in ("init -q", "commit -q --allow-empty -m First", "commit -q --allow-empty -m Second"):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command.split()], cwd=project, check=True)
    agent = shlex.join([COMMAND, "serve", "--store", "memory", str(NOTES)])
    done = subprocess.run(
        [str(ACPX), "--cwd", str(project), answer, "--agent", agent, "exec", "/notes HEAD"],
        env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    notes = project / "NOTES.md"
    assert (notes.read_text() if notes.exists() else "") == written, done.stdout + done.stderr
    assert "[done] end_turn" in done.stdout
