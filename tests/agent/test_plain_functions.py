"""Plain functions that answer requests run in threads: what they wait for holds up no cancel and no other request."""

import threading
from typing import Any

import anyio.from_thread
import pytest

from acp_server import Agent, Call, Session, Turn
from acp_server.schema import SessionConfigBoolean, SessionMode
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio


class Gate:
    """A plain function waits at it until another request of the client opens it."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.passed: list[bool] = []

    def wait(self, *_: Any) -> None:
        self.passed.append(self.opened.wait(10))


def agent(gate: Gate, what: str) -> Agent:
    agent = Agent("plain")
    agent.modes(SessionMode(id="a", name="A"), SessionMode(id="b", name="B"))
    agent.config_options(SessionConfigBoolean(id="o", name="O", current_value=False))
    register = {
        "session/new": lambda: agent.session(gate.wait),
        "session/set_mode": lambda: agent.set_mode(gate.wait),
        "session/set_config_option": lambda: agent.set_config_option(gate.wait),
        "authenticate": lambda: agent.authenticate("in", name="In")(gate.wait),
        "logout": lambda: agent.logout(gate.wait),
        "_wait": lambda: agent.method("_wait")(lambda call: gate.wait()),
    }
    register[what]()

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.method("_open")
    async def open_gate(call: Call) -> None:
        gate.opened.set()

    return agent


ASKED: dict[str, dict[str, Any]] = {
    "session/new": {"cwd": "/", "mcpServers": []},
    "session/set_mode": {"modeId": "b"},
    "session/set_config_option": {"configId": "o", "type": "boolean", "value": True},
    "authenticate": {"methodId": "in"},
    "logout": {},
    "_wait": {},
}


@pytest.mark.parametrize("what", ASKED)
async def test_other_requests_are_answered_while_a_plain_function_waits(what: str) -> None:
    gate = Gate()
    async with editing(agent(gate, what)) as editor:
        params = ASKED[what]
        if what.startswith("session/set"):
            params = {**params, "sessionId": await editor.open()}
        request = editor.client.new_request(what, params)
        await editor.client.send(request)
        await editor.client.result("_open", {})
        assert "result" in await editor.client.response(request["id"])
    assert gate.passed == [True]


async def test_a_plain_session_handler_reaches_the_event_loop_from_its_thread() -> None:
    agent = Agent("plain")
    threads: list[int] = []

    @agent.session
    def opened(session: Session) -> None:
        threads.append(threading.get_ident())
        anyio.from_thread.run(session.set_title, "Hello")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        [listed] = (await editor.client.result("session/list", {}))["sessions"]
        assert listed["title"] == "Hello"
    assert threads != [threading.get_ident()]
