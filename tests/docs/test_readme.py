"""What the README begins with: the wheel that it names, and its first agent, which can be run and can be served."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.processes.driver import started

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(?P<source>(?:.*\n)*?)```$", re.MULTILINE)


@pytest.mark.parametrize("command", [[], ["-m", "acp_server", "serve"]], ids=["run", "served"])
def test_the_first_agent_counts_the_lines_of_a_file(command: list[str], tmp_path: Path) -> None:
    first = BLOCK.search((ROOT / "README.md").read_text("utf-8"))
    assert first
    (tmp_path / "my_agent.py").write_text(first["source"])
    with started([sys.executable, *command, "my_agent.py"], cwd=tmp_path) as agent:
        files = {"fs": {"readTextFile": True}}
        agent.call(1, "initialize", protocolVersion=1, clientCapabilities=files)
        session = agent.call(2, "session/new", cwd=str(tmp_path), mcpServers=[])["sessionId"]
        agent.request(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "a.txt"}])
        said = ""
        while "stopReason" not in (message := agent.next()).get("result", {}):
            if message["method"] == "fs/read_text_file":
                assert message["params"]["path"] == os.path.join(tmp_path, "a.txt")
                agent.send({"jsonrpc": "2.0", "id": message["id"], "result": {"content": "one\ntwo\n"}})
            else:
                said += message["params"]["update"].get("content", {}).get("text", "")
        assert said == "You asked for 'a.txt'. It has 2 lines."
        assert message["result"] == {"stopReason": "end_turn"}
        assert agent.finish() == 0
        assert agent.stderr == ""


def test_the_command_for_the_wheel_makes_the_file_that_is_to_be_installed(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    named = re.search(r'^pip install "dist/([^"\[]+)', text, re.MULTILINE)
    command = re.search(r"`pip (wheel [^`]*)--wheel-dir dist \.`", text)
    assert named
    assert command
    # What builds it is here already, and need not come from an index.
    pip = [sys.executable, "-m", "pip", *shlex.split(command[1]), "--no-build-isolation", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--wheel-dir", str(tmp_path), "."], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [file.name for file in tmp_path.iterdir()] == [named[1]]
