"""The commands of the guides run as they are written, in the folder of a new agent."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from acp_server.apps.cli import main
from tests.agent.processes.driver import environment
from tests.prefork import Prefork

from .blocks import DOCS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the guides have commands of a POSIX shell")


def commands(guide: str, heading: str) -> list[str]:
    """The lines of the shell's blocks below a heading."""
    part = (DOCS / guide).read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize(
    ("guide", "heading", "count"),
    [
        ("chat.md", "In scripts", 5),
        ("deployment.md", "Before others use it", 1),
        ("deployment.md", "The list of the editors: the ACP registry", 1),
        ("trace.md", "The page", 1),
        ("start-agent.md", "Try it", 3),
        ("start-gateway.md", "Try it", 1),
        ("start-judge.md", "Try it", 1),
    ],
)
def test_the_commands_of_a_guide_run(guide: str, heading: str, count: int, tmp_path: Path, forks: Prefork) -> None:
    folder = tmp_path / "my-agent"
    assert main(["new", str(folder)]) == 0
    (folder / "talk.ndjson").write_bytes((DOCS / "pictures" / "cancel-turn.ndjson").read_bytes())
    programs = tmp_path / "bin"
    programs.mkdir()
    command = forks.stand_in([str(Path(sys.executable).with_name("acp-server"))])
    (programs / "acp-server").write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    (programs / "acp-server").chmod(0o700)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = environment(PATH=path, XDG_STATE_HOME=str(tmp_path))
    lines = commands(guide, heading)
    assert len(lines) == count
    for line in lines:
        done = subprocess.run(line, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
