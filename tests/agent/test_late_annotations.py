"""Annotations that name what only type checkers import, or what comes later, in each function of an agent."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import anyio
import pytest

from acp_server.errors import UsageError
from acp_server.testing import scripted

FUTURE = "from __future__ import annotations\n"
LAZY = pytest.param(
    "", marks=pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated at once")
)
HEADS = pytest.mark.parametrize("head", [FUTURE, LAZY])

BEGIN = """
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acp_server import Agent
from acp_server.schema import SessionMode
from acp_server.testing import memory_pair

if TYPE_CHECKING:
    import missing
    from missing import Missing
    from acp_server import ToolContext

agent = Agent("late")
"""

EVERYWHERE = """
agent.modes(SessionMode(id="a", name="A"))

@agent.initialize
def initialize(initialization: Missing) -> Missing: ...

@agent.prompt
async def prompt(turn: Missing) -> missing.Text:
    yield str(await turn.call(add, spot=Spot(1, 2)))

@agent.steer
async def steer(turn: Missing, message: list[Missing]): ...

@agent.session
async def session(session: "Missing | None"): ...

@agent.session_id
def session_id(call: Missing | None) -> str:
    return "one"

@agent.replay
async def replay(session: missing.Session):
    yield session.updates

@agent.method("_at")
def at(call: Missing, x: int) -> Missing:
    return x

@agent.notification("_said")
def said(connection: Missing, x: int) -> None: ...

def asks(spot: Spot, call: ToolContext) -> Missing | str:
    return "Add?"

@agent.tool(approval=asks)
def add(spot: Spot, call: ToolContext) -> Missing:
    return spot.x + spot.y

@agent.set_mode
def set_mode(session: Missing, mode: str): ...

@agent.authenticate("key", name="Key")
def authenticate(call: Missing): ...

@agent.logout
def logout(call: Missing): ...

@dataclass
class Spot:
    x: int
    y: int
"""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Runs a source as a module of its own: its names."""

    def run(source: str) -> dict[str, Any]:
        module = ModuleType("late")
        monkeypatch.setitem(sys.modules, "late", module)
        exec(compile(source, "late.py", "exec", dont_inherit=True), module.__dict__)
        return module.__dict__

    return run


Load = Callable[[str], dict[str, Any]]


@HEADS
@pytest.mark.anyio
async def test_an_annotation_may_name_what_is_not_there_or_comes_later(head: str, load: Load) -> None:
    agent = load(head + BEGIN + EVERYWHERE)["agent"]
    with anyio.fail_after(20):
        async with scripted(lambda stream: agent.connect(stream).run()) as client:
            await client.result("initialize", {"protocolVersion": 1})
            session = (await client.result("session/new", {"cwd": "/", "mcpServers": []}))["sessionId"]
            client.answer("session/request_permission", {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
            assert await client.result("_at", {"x": 3}) == 3
            prompt = [{"type": "text", "text": "add"}]
            assert (await client.result("session/prompt", {"sessionId": session, "prompt": prompt}))["stopReason"]
            assert "3" in str(client.updates(session))
            await client.result("session/set_mode", {"sessionId": session, "modeId": "a"})


@HEADS
@pytest.mark.parametrize(
    "source",
    [
        '@agent.method("_at")\ndef at(call, spot: Missing): ...\n',
        '@agent.method("_at")\ndef at(call, spots: list[Missing]): ...\n',
        '@agent.notification("_at")\ndef at(connection, spot: missing.Spot): ...\n',
        "@agent.tool\ndef at(spot: Missing | None): ...\nagent.connect(memory_pair()[0])\n",
    ],
)
def test_a_type_that_has_to_be_known_and_is_not_is_named(head: str, source: str, load: Load) -> None:
    with pytest.raises(UsageError, match=r"^at: the type of spots? cannot be resolved: .*[Mm]issing"):
        load(head + BEGIN + source)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated at once")
def test_a_type_of_the_function_around_is_known_though_another_is_not(load: Load) -> None:
    source = """
def made():
    @agent.method("_at")
    def at(call: Missing, spot: Inner) -> int: ...

    class Inner: ...

    return Inner

try:
    made()
except Exception as error:
    problem = error
"""
    assert "Inner" in str(load(BEGIN + source)["problem"])
