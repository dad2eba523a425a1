"""The example agent of release notes, judged: it breaks no rule of the suite."""

import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent import profile
from acp_conformance.agent.run import AgentRun
from acp_conformance.core.result import Verdict
from acp_server import Agent, MemoryStore
from tests.conformance.in_memory import NOT_IN_MEMORY, from_file, starting
from tests.conformance.test_ours import AT_ONCE, PATIENCE, show

NOTES = Path(__file__).parents[2] / "examples" / "notes.py"
DOES: dict[str, Any] = {
    # In this mode it asks once, which is what these situations are.
    **{each: {"prompt": "HEAD", "mode": "show"} for each in ("quick", "stream", "permission", "tool", "plan")},
    "fails": {"prompt": "nowhere"},
}


def repository(folder: Path) -> dict[str, str]:
    """The files of a repository with two commits, whose objects are in the folder."""
    for command in ("init -q", "commit -q --allow-empty -m First", "commit -q --allow-empty -m Second"):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command.split()], cwd=folder, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return {
        ".git/HEAD": "ref: refs/heads/main\n",
        ".git/refs/heads/main": head,
        ".git/objects/info/alternates": f"{folder / '.git' / 'objects'}\n",
    }


def judged_agent() -> Agent:
    agent = from_file(NOTES)()
    agent.store = MemoryStore()
    return agent


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_example_of_release_notes_breaks_no_rule(backend: str, tmp_path: Path) -> None:
    known = profile.parse({"name": "notes", "setup": {"cwd_files": repository(tmp_path)}, "situations": DOES})
    cases = [case for case in agent_cases.load() if case not in agent_cases.load().matching(NOT_IN_MEMORY)]
    judge = AgentRun(["notes"], known, timeout=PATIENCE, jobs=AT_ONCE, start=starting(judged_agent))
    judged = anyio.run(judge.run, cases, backend=backend)
    assert {case.id for case in judged.cases if case.verdict is Verdict.FAIL} == set(), show(judged)
    # What it does was seen, and not only that it is well formed.
    passed = {case.id for case in judged.cases if case.verdict is Verdict.PASS}
    assert {case.partition("/")[0] for case in passed} >= {"permission", "sessions", "turns"}
