"""`check_observer`: the contract test of an `Observer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from acp_server.agent.app import Agent
from acp_server.errors import InvalidParams, ToolFailed
from acp_server.peer.call import Call
from acp_server.peer.limits import Limits
from acp_server.peer.observer import Observer, Span
from acp_server.session.turn import Turn
from acp_server.testing.scripted import Message, ScriptedClient, scripted

T = TypeVar("T")


async def check_observer(observer: Observer) -> None:
    """Show `observer` each kind of end of a request, a turn and a tool call, on an agent in memory. They have results
    and errors, are rejected and cancelled, and are in flight at EOF.

    Raises the first exception of the observer's methods, which an agent only logs.
    """
    watched = _Watched(observer)
    begun = _Begun()
    agent = _agent(watched, begun)
    async with scripted(lambda stream: agent.connect(stream, Limits(drain=0.0)).run()) as client:
        client.answer("session/request_permission", _reject)
        await client.result("initialize", {"protocolVersion": 1})
        session = (await client.result("session/new", {"cwd": "/", "mcpServers": []}))["sessionId"]
        for text in ("work", "fail", "ask", "raise"):
            await client.ask("session/prompt", _prompt(session, text))
        # An answer that needs no handler, since the session is unknown.
        await client.ask("session/prompt", _prompt("unknown", "work"))
        await _cancelled(client, begun, "session/prompt", _prompt(session, "wait"))
        await _cancelled(client, begun, "_wait", {})
        await client.request("session/prompt", _prompt(session, "wait"))
        await begun.wait()
    if watched.errors:
        raise watched.errors[0]


class _Watched(Observer):
    """Calls an observer and keeps its exceptions."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.errors: list[Exception] = []

    def begin(self, span: Span) -> None:
        self._call(self._observer.begin, span)

    def end(self, span: Span) -> None:
        self._call(self._observer.end, span)

    def received(self, size: int) -> None:
        self._call(self._observer.received, size)

    def sent(self, size: int) -> None:
        self._call(self._observer.sent, size)

    def _call(self, method: Callable[[T], object], argument: T) -> None:
        try:
            method(argument)
        except Exception as error:
            self.errors.append(error)


class _Begun:
    """Tells the client that a handler waits."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    async def forever(self) -> None:
        self._event.set()
        await anyio.sleep_forever()

    async def wait(self) -> None:
        await self._event.wait()
        self._event = anyio.Event()


def _agent(observer: Observer, begun: _Begun) -> Agent:
    agent = Agent("observed", observers=[observer])

    async def work() -> str:
        """Work."""
        return "done"

    async def fail() -> None:
        """Fail."""
        raise ToolFailed("not today")

    async def wait() -> None:
        """Wait."""
        await begun.forever()

    async def ask() -> None:
        """Ask."""

    for tool in (work, fail, wait):
        agent.tool(tool)
    agent.tool(approval=True)(ask)

    async def prompt(turn: Turn) -> None:
        if turn.text == "raise":
            raise InvalidParams("no")
        await turn.run_tool(turn.text, {})

    async def waiting(call: Call) -> None:
        await begun.forever()

    agent.prompt(prompt)
    agent.method("_wait")(waiting)
    return agent


async def _cancelled(client: ScriptedClient, begun: _Begun, method: str, params: dict[str, Any]) -> None:
    id = await client.request(method, params)
    await begun.wait()
    await client.notify("$/cancel_request", {"requestId": id})
    await client.response(id)


def _prompt(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def _reject(message: Message) -> dict[str, Any]:
    options = [option["optionId"] for option in message["params"]["options"] if option["kind"] == "reject_once"]
    return {"outcome": {"outcome": "selected", "optionId": options[0]}}
