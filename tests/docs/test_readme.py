"""What the README begins with: the address of the project, and its first agent, which can be run and can be served."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.agent.processes.driver import environment, started

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


def test_the_first_tool_asks_first_and_keeps_what_it_has(tmp_path: Path) -> None:
    first = BLOCK.search((ROOT / "README.md").read_text("utf-8"))
    assert first
    (tmp_path / "my_agent.py").write_text(first["source"])
    command = [sys.executable, "-m", "acp_server", "chat", "--yes", "-p", "look up acp json", "my_agent.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "acp has 3 letters, json has 4 letters\n"), done.stderr


def test_every_page_gives_the_address_of_the_project_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {each for page in pages for each in re.findall(r"git clone (\S+)", page.read_text("utf-8"))}
    assert named == {project["urls"]["Repository"]}
