"""An editor for tests: a scripted client that knows the protocol's methods, connected to an agent in memory.

What holds for every conversation is checked at its end: each request was answered once, and nothing is left of it.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from acp_server import Agent, Connection, Limits
from acp_server.peer.stream import Stream
from acp_server.testing import FaultyStream, ScriptedClient, scripted

CANCEL = "$/cancel_request"
EVERYTHING = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}
CALM = Limits(drain=0.05)
"""For most tests. What still runs at their end is not waited for."""
QUICK = Limits(drain=0.05, grace=0.1)
"""For tests in which a handler outstays its time."""

CANCELLED = {"stopReason": "cancelled"}
END_TURN = {"stopReason": "end_turn"}


class Editor:
    """One client and what it says in the words of the protocol.

    `client` is the raw wire, `stream` the agent's end of it, `connection` what the agent makes of that.
    """

    def __init__(self, client: ScriptedClient, stream: FaultyStream, connection: Connection) -> None:
        self.client = client
        self.stream = stream
        self.connection = connection

    async def initialize(self, capabilities: Mapping[str, Any] | None = None) -> Any:
        params = {"protocolVersion": 1, "clientCapabilities": EVERYTHING if capabilities is None else capabilities}
        return await self.client.result("initialize", params)

    async def open(self, cwd: str = "/project", **params: Any) -> str:
        """A new session's id."""
        return (await self.client.result("session/new", {"cwd": cwd, "mcpServers": [], **params}))["sessionId"]

    def prompting(self, session: str, text: str = "go", **params: Any) -> dict[str, Any]:
        """A prompt, not sent."""
        blocks = [{"type": "text", "text": text}]
        return self.client.new_request("session/prompt", {"sessionId": session, "prompt": blocks, **params})

    async def prompt(self, session: str, text: str = "go", **params: Any) -> Any:
        """Send a prompt: its id."""
        message = self.prompting(session, text, **params)
        await self.client.send(message)
        return message["id"]

    async def ask(self, session: str, text: str = "go", **params: Any) -> Any:
        """Send a prompt and wait for its answer."""
        return await self.answer(await self.prompt(session, text, **params))

    def cancelling(self, session: str) -> dict[str, Any]:
        """A session/cancel, not sent."""
        return {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}

    async def cancel(self, session: str) -> None:
        await self.client.send(self.cancelling(session))

    async def withdraw(self, id: Any) -> None:
        """Send a $/cancel_request."""
        await self.client.notify(CANCEL, {"requestId": id})

    async def answer(self, id: Any) -> Any:
        """The answer to a request: its result, or the error as `{"code": ..., "message": ..., "data": ...}`."""
        response = await self.client.response(id)
        return response["result"] if "result" in response else response["error"]

    async def code(self, id: Any) -> int:
        """The code of the error that a request is answered with."""
        response = await self.client.response(id)
        if "error" not in response:
            self.client.fail(f"request {id!r} was answered with a result")
        return response["error"]["code"]

    async def refusal(self, method: str, params: Any = None) -> dict[str, Any]:
        """The error that a request is answered with."""
        response = await self.client.ask(method, params)
        if "error" not in response:
            self.client.fail(f"{method} was answered with a result")
        return response["error"]

    def said(self, session: str | None = None, kind: str = "agent_message_chunk") -> list[str]:
        """The texts of all chunks so far."""
        updates = self.client.updates(session)
        return [update["content"]["text"] for update in updates if update["sessionUpdate"] == kind]

    def withdrawn(self) -> list[Any]:
        """The ids of the agent's requests that it has withdrawn, in order."""
        return [message["params"]["requestId"] for message in self.client.all(CANCEL)]

    def asked(self, prefix: str = "") -> list[str]:
        """The methods of the agent's requests so far."""
        methods = [m["method"] for m in self.client.received if "id" in m and "method" in m]
        return [method for method in methods if method.startswith(prefix)]

    async def settled(self) -> None:
        """Wait until the agent has read and acted on everything that was sent."""
        await self.client.barrier()


@asynccontextmanager
async def editing(
    agent: Agent,
    limits: Limits = CALM,
    capabilities: Mapping[str, Any] | None = None,
    *,
    initialize: bool = True,
    leaks: int = 0,
) -> AsyncGenerator[Editor]:
    """An editor of `agent`. `leaks`: how many handlers the test leaves behind that refuse to end."""
    ends: list[tuple[FaultyStream, Connection]] = []

    async def serve(stream: Stream) -> None:
        faulty = FaultyStream(stream)
        ends.append((faulty, agent.connect(faulty, limits)))
        await ends[0][1].run()

    async with scripted(serve) as client:
        # Something has to be answered before there is a connection.
        await client.barrier()
        stream, connection = ends[0]
        editor = Editor(client, stream, connection)
        if initialize:
            await editor.initialize(capabilities)
        yield editor
    answers = Counter(
        (type(m["id"]), m["id"]) for m in client.received if "id" in m and "method" not in m and m["id"] is not None
    )
    assert not [id for id, count in answers.items() if count > 1], client.transcript
    assert connection.leaked == leaks
    assert not connection.endpoint.incoming
    assert connection.endpoint.ledger.outgoing == 0
    if not leaks:
        assert connection.tree.size == 0
