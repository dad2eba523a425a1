"""What the command line may name as the agent to serve, and what it says if that is wrong."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_server import Agent, Limits
from acp_server.apps.cli.target import load
from acp_server.errors import UsageError
from tests.agent.processes.plain import Plain

TORN = os.path.join("inner", "torn.py")

SOURCE = """
from tests.agent.processes.plain import Plain
import neighbour_of_it
agent = other = Plain()
class Nested:
    inner = Plain()
def make():
    return other
async def coroutine():
    return other
def needy(name):
    return other
def failing():
    raise ValueError("no key in the environment")
def wrong():
    return 7
number = 7
"""

RUNNING = """
from acp_server import Agent, Limits
agent = Agent("not run")
bot = Agent("run")
def make():
    bot.run(backend="trio")
bot.run(backend="trio", limits=Limits(grace=7))
behind = agent
1 / 0
"""
MAKING = """
import sys
from acp_server import Agent
def make():
    Agent("made").run(backend="trio")
def cannot():
    sys.exit("no key")
Agent("main").run()
"""
GOING_ON = """
from acp_server import Agent
first, agent = Agent("first"), Agent("second")
try:
    first.run()
except SystemExit:
    agent.run()
"""
FAILING_BEHIND = """
from acp_server import Agent
agent = Agent("closed")
try:
    agent.run()
finally:
    1 / 0
"""
IN_A_LOOP = """
import anyio
from acp_server import Agent
agent = Agent("in a loop")
async def main():
    agent.run(backend="trio")
anyio.run(main)
"""

MAIN = """
import sys
from dataclasses import dataclass
from acp_server import Agent
agent = Agent("set up")
other = Agent("other")

@dataclass
class Place:
    agent: "Agent"

def configure():
    import argparse
    argparse.ArgumentParser().parse_args()
    agent.set_up = True

def main():
    configure()
    {serving}
    1 / 0

if __name__ == "__main__":
    main()
"""
TRYING = """
import subprocess
from acp_server import Agent
agent = Agent("tried")
def try_it():
    subprocess.run(["false"], check=True)
if __name__ == "__main__":
    try_it()
"""
GROUPED = """
    import anyio
    from acp_server.agent.serve import serve_stdio
    async def served():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_stdio, agent)
    anyio.run(served, backend="trio")
"""

A_FOLDER = "is a folder, which cannot be served: expected FILE.py or module:attribute"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with an agent in a file, and neighbours."""
    (tmp_path / "my_agent.py").write_text(SOURCE)
    (tmp_path / "neighbour_of_it.py").write_text("")
    (tmp_path / "broken.py").write_text("import logging\nraise RuntimeError('first line\\nsecond line')\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "torn.py").write_text("def f(:\n")
    (tmp_path / "needs.py").write_text("import something_not_installed\n")
    (tmp_path / "wants.py").write_text("import json\n\nimport needs\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / TORN).write_text("def f(:\n")
    (tmp_path / "within.py").write_text("import json\n\nimport inner.torn\n")
    (tmp_path / "reading.py").write_text("from ast import literal_eval\nliteral_eval('(')\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "module.py").write_text("from my_agent import agent\n")
    (tmp_path / "running.py").write_text(RUNNING)
    (tmp_path / "running_neighbour.py").write_text("from running import bot\n")
    (tmp_path / "making.py").write_text(MAKING)
    (tmp_path / "going_on.py").write_text(GOING_ON)
    (tmp_path / "failing_behind.py").write_text(FAILING_BEHIND)
    (tmp_path / "in_a_loop.py").write_text(IN_A_LOOP)
    (tmp_path / "json.py").write_text("from tests.agent.processes.plain import Plain\nagent = Plain()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


@pytest.mark.parametrize(
    "target",
    [
        "my_agent",
        "my_agent:agent",
        "my_agent:",
        "my_agent:Nested.inner",
        "my_agent:make",
        "my_agent:Plain",
        "my_agent.py",
        "my_agent.py:other",
        "./my_agent.py:make",
        "package.module",
        "package/module.py:agent",
        "json.py",
    ],
)
def test_an_agent_is_found_in_a_module_of_the_working_directory_or_in_a_file(folder: Path, target: str) -> None:
    agent, options = load(target)
    assert isinstance(agent, Plain)
    assert options == {}


def test_an_absolute_path_needs_no_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert isinstance(load(f"{folder}/my_agent.py:other")[0], Plain)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("running.py", "run"),
        ("running", "run"),
        ("running_neighbour.py", "run"),
        ("running.py:agent", "not run"),
        ("running.py:bot", "run"),
        ("running.py:make", "run"),
        ("going_on.py", "first"),
        ("in_a_loop.py", "in a loop"),
    ],
)
def test_a_program_that_runs_its_agent_is_loaded_up_to_there_and_that_is_its_agent(
    folder: Path, target: str, name: str
) -> None:
    agent, options = load(target)
    assert isinstance(agent, Agent)
    assert agent.name == name
    expected: dict[str, Any] = {"running": {"backend": "trio", "limits": Limits(grace=7)}}
    expected["in a loop"] = {"backend": "trio"}
    assert options == (expected["running"] if name == "run" else expected.get(name, {}))


SERVING = {
    "run": "agent.run()",
    "asyncio": "import asyncio; from acp_server.agent.serve import serve_stdio; asyncio.run(serve_stdio(agent))",
    "in a task group": GROUPED.strip(),
}


@pytest.mark.parametrize("target", ["program.py", "program.py:agent", "program", "program:agent"])
@pytest.mark.parametrize("serving", SERVING)
def test_what_a_program_sets_up_before_it_serves_is_set_up_for_who_loads_it(
    folder: Path, target: str, serving: str
) -> None:
    (folder / "program.py").write_text(MAIN.replace("{serving}", SERVING[serving]))
    arguments = list(sys.argv)
    agent, _ = load(target)
    assert isinstance(agent, Agent)
    assert (agent.name, vars(agent)["set_up"]) == ("set up", True)
    assert sys.argv == arguments
    assert sys.modules["program"].__name__ == "program"


def test_an_attribute_of_a_program_is_found_where_it_serves_another_agent(folder: Path) -> None:
    (folder / "program.py").write_text(MAIN.replace("{serving}", "agent.run()"))
    agent, _ = load("program.py:other")
    assert isinstance(agent, Agent)
    assert agent.name == "other"


@pytest.mark.parametrize("target", ["trying.py", "trying"])
def test_a_main_block_that_serves_nothing_does_not_run(folder: Path, target: str) -> None:
    (folder / "trying.py").write_text(TRYING)
    agent, _ = load(target)
    assert isinstance(agent, Agent)
    assert agent.name == "tried"


def test_a_program_that_fails_before_it_serves_says_where(folder: Path) -> None:
    (folder / "program.py").write_text(MAIN.replace("{serving}", "raise OSError('no disk')\n    agent.run()"))
    with pytest.raises(UsageError, match=r"program\.py failed: OSError: no disk \(program\.py, line 19"):
        load("program.py")


def test_a_function_that_is_named_makes_the_agent_whatever_its_file_has_run(folder: Path) -> None:
    agent, options = load("making.py:make")
    assert isinstance(agent, Agent)
    assert (agent.name, options) == ("made", {"backend": "trio"})
    with pytest.raises(UsageError, match="SystemExit: no key"):
        load("making.py:cannot")


def test_a_file_named_like_a_module_that_is_in_use_does_not_take_its_place(folder: Path) -> None:
    import json

    load("json.py")
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nosuch", "there is no module 'nosuch', here or among the installed packages"),
        ("package.nosuch", "there is no module 'package.nosuch', here or among the installed packages"),
        ("nosuch.inner", "there is no module 'nosuch', here or among the installed packages"),
        ("nosuch.py", "there is no file {folder}/nosuch.py"),
        ("package/nosuch:agent", "there is no file {folder}/package/nosuch"),
        ("package/", f"package {A_FOLDER}"),
        ("empty", f"empty {A_FOLDER}"),
        ("empty:agent", f"empty {A_FOLDER}"),
        ("no such", "'no such' is neither a module nor a file whose name ends in .py"),
        ("my-agent", "'my-agent' is neither a module nor a file whose name ends in .py"),
        ("package", "package has no attribute 'agent'"),
        ("my_agent:nosuch", "my_agent has no attribute 'nosuch'; did you mean my_agent:agent?"),
        ("my_agent.py:Nested.nosuch", "my_agent.py has no attribute 'nosuch'; did you mean my_agent.py:agent?"),
        ("my_agent:number", "my_agent:number is of type int; expected an agent"),
        ("my_agent:wrong", "my_agent:wrong() is of type int; expected an agent"),
        ("my_agent:needy", "my_agent:needy is neither an agent nor a function without arguments that returns one"),
        (
            "my_agent:coroutine",
            "my_agent:coroutine is an async function; expected an agent or a function that returns one",
        ),
        ("my_agent:failing", "my_agent:failing() failed: ValueError: no key in the environment (my_agent.py, line 14)"),
        ("broken", "broken failed: RuntimeError: first line second line (broken.py, line 2)"),
        ("broken.py", "broken.py failed: RuntimeError: first line second line (broken.py, line 2)"),
        (
            "wants",
            "wants failed: ModuleNotFoundError: No module named 'something_not_installed' "
            "(needs.py, line 1, from wants.py, line 3)",
        ),
        ("within.py", f"within.py failed: SyntaxError: invalid syntax ({TORN}, line 1, from within.py, line 3)"),
        ("reading.py", "reading.py failed: SyntaxError: '(' was never closed (reading.py, line 2)"),
        ("leaving", "leaving failed: SystemExit: 3 (leaving.py, line 1)"),
        (
            "running.py:behind",
            "running.py calls run() before it defines 'behind'; put the call of run() under `if __name__ == "
            '"__main__":`',
        ),
        (
            "failing_behind.py",
            "failing_behind.py failed: ZeroDivisionError: division by zero (failing_behind.py, line 7)",
        ),
        ("torn.py", "torn.py failed: SyntaxError: invalid syntax (torn.py, line 1)"),
        ("needs", "needs failed: ModuleNotFoundError: No module named 'something_not_installed' (needs.py, line 1)"),
    ],
)
def test_a_mistake_is_said_in_one_line(folder: Path, target: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        load(target)
    assert str(raised.value) == said.replace("{folder}", str(folder))


def test_the_traceback_of_a_failed_import_is_in_the_log_at_level_debug(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "acp_server.apps.cli"), pytest.raises(UsageError):
        load("broken.py")
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], RuntimeError)
