"""Each row of docs/mistakes.md is run: what it says is said there, and nowhere later."""

import gc
import json
import logging
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import AsyncGenerator, Iterator
from typing import Any, NamedTuple

import pytest

import acp_server
from acp_server import Agent, Session, Turn, schema
from acp_server.client import Handlers
from acp_server.errors import AcpError
from acp_server.session.client import PermissionAnswer
from acp_server.testing import memory_pair
from acp_server.tools import editor
from tests.session.editor import editing

from .blocks import DOCS


class Row(NamedTuple):
    code: str
    places: list[str]
    words: str

    def __str__(self) -> str:
        return re.sub(r"\W+", "-", self.code)[:60]


def rows() -> list[Row]:
    text = (DOCS / "mistakes.md").read_text("utf-8")
    found = re.findall(r"^\| (`.+`) \| ([a-z, ]+) \| (.*?) ?\|$", text, re.MULTILINE)
    return [Row("\n".join(re.findall(r"`([^`]+)`", code)), said.split(", "), words) for code, said, words in found]


ROWS = rows()


def at(place: str) -> Any:
    """The rows that are said at a place."""
    return pytest.mark.parametrize("row", [row for row in ROWS if place in row.places], ids=str)


async def echo(turn: Turn) -> None: ...


async def nothing(session: Session) -> None: ...


def names(agent: Agent) -> dict[str, Any]:
    """What the code of a row may name."""
    types = {name: getattr(schema, name) for name in dir(schema) if schema.area_of(name)}
    public = {name: getattr(acp_server, name) for name in dir(acp_server) if name[0] != "_"}
    public |= {name: getattr(editor, name) for name in editor.__all__}
    public["PermissionAnswer"] = PermissionAnswer
    return {**types, **public, "agent": agent, "Handlers": Handlers, "echo": echo, "nothing": nothing}


def agent_with_a_handler(row: Row) -> Agent:
    """An agent whose prompt handler does what a row writes."""
    agent = Agent("a")
    option = schema.SessionConfigBoolean(id="detail", name="Detail", current_value=False)
    agent.config_options(option)
    agent.tool(name="look")(lambda: None)
    scope = names(agent)
    exec(f"async def handler(turn):\n{textwrap.indent(row.code, '    ')}", scope)
    agent.prompt(scope["handler"])
    return agent


def test_there_are_forty_and_each_is_said_somewhere() -> None:
    assert len(ROWS) >= 40
    assert len({row.code for row in ROWS}) == len(ROWS)
    text = (DOCS / "mistakes.md").read_text("utf-8")
    assert len(ROWS) == len(re.findall(r"^\| `", text, re.MULTILINE))
    places = {"registration", "serving", "first call", "log"}
    assert {place for row in ROWS for place in row.places} == places | {"pyright"}
    assert all(places & {*row.places} for row in ROWS)


@at("registration")
def test_it_is_said_when_the_program_starts(row: Row) -> None:
    with pytest.raises((AcpError, ValueError, TypeError), match=re.escape(row.words)):
        exec(row.code, names(Agent("a")))


@at("serving")
def test_it_is_said_before_a_client_is_answered(row: Row) -> None:
    agent = Agent("a")
    exec(row.code, names(agent))
    with pytest.raises(AcpError, match=re.escape(row.words)):
        agent.connect(memory_pair()[1])


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Coroutines that a mistake has left without an await go here, and not in a later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.mark.anyio
@at("first call")
async def test_it_is_said_by_the_call_that_is_wrong(row: Row) -> None:
    raised: list[BaseException] = []
    agent = agent_with_a_handler(row)
    handler = agent._prompt
    assert handler is not None

    async def caught(turn: Turn) -> None:
        try:
            await handler(turn)  # pyright: ignore[reportGeneralTypeIssues]
        except (AcpError, AttributeError, ValueError, TypeError) as error:
            raised.append(error)

    agent._prompt = None
    agent.prompt(caught)
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session)
        assert row.words in str(raised[0])
        assert not [each for each in editor.client.received if str(each.get("method")).startswith(("fs/", "terminal/"))]


def in_a_prompt(row: Row) -> bool:
    return not row.code.startswith("@")


@pytest.mark.anyio
@pytest.mark.odd_shapes
@at("log")
async def test_it_is_said_in_the_log(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    if in_a_prompt(row):
        agent = agent_with_a_handler(row)
    else:
        agent = Agent("a")
        exec(row.code, names(agent))

        @agent.prompt
        async def prompt(turn: Turn) -> AsyncGenerator[str]:
            if "locate" in agent.tools:
                await turn.run_tool("locate")
            yield "done"

    with caplog.at_level(logging.WARNING), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with editing(agent) as editor:
            editor.client.answer("fs/read_text_file", {"content": "text\n"})
            editor.client.answer("terminal/create", {"terminalId": "t1"})
            if "authenticate" in row.code:
                await editor.refusal("authenticate", {"methodId": "x"})
            else:
                await editor.ask(await editor.open())
        gc.collect()
    assert row.words in caplog.text + "".join(str(each.message) for each in warned)


@pytest.fixture(scope="module")
def told_by_pyright(tmp_path_factory: pytest.TempPathFactory) -> set[int]:
    """The rows that pyright says something about, with its usual settings."""
    lines = [
        "from acp_server import *",
        "from acp_server.schema import *",
        "from acp_server.tools.editor import *",
        "from acp_server.client import Handlers",
        "from acp_server.session.client import PermissionAnswer",
        "async def echo(turn: Turn) -> None: ...",
        "async def nothing(session: Session) -> None: ...",
    ]
    begins: list[int] = []
    for number, row in enumerate(ROWS):
        begins.append(len(lines))
        lines.append(f"async def row_{number}(agent: Agent, turn: Turn) -> None:")
        lines += textwrap.indent(row.code, "    ").split("\n")
    file = tmp_path_factory.mktemp("rows") / "rows.py"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=DOCS.parent, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    wrong = [each["range"]["start"]["line"] for each in found if each["severity"] == "error"]
    return {max(n for n, begin in enumerate(begins) if begin <= line) for line in wrong if line >= begins[0]}


def test_pyright_says_what_the_page_says_that_it_does(told_by_pyright: set[int]) -> None:
    said = {row.code for number, row in enumerate(ROWS) if number in told_by_pyright}
    assert said == {row.code for row in ROWS if "pyright" in row.places}
