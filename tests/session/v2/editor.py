"""An editor for tests that speaks version 2, and knows it: see `tests.session.editor`."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from acp_server import Agent, Limits
from acp_server.schema import from_wire, v2
from tests.session import editor as v1
from tests.session.editor import CALM

HELLO: dict[str, Any] = {"protocolVersion": 2, "info": {"name": "editor", "version": "1"}, "capabilities": {}}


class Editor(v1.Editor):
    """One client and what it says in the words of version 2. `ask` waits for the end of the work."""

    async def open(self, cwd: str = "/project", **params: Any) -> str:
        return (await self.client.result("session/new", {"cwd": cwd, **params}))["sessionId"]

    async def ask(self, session: str, text: str = "go", **params: Any) -> Any:
        """Send a prompt and wait for its answer, and until there is nothing to do: why it ended."""
        seen = len(self.states(session))
        await self.client.result(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}], **params}
        )
        return await self.idle(session, seen)

    async def idle(self, session: str, behind: int = 0) -> dict[str, Any]:
        """Wait for an `idle` of the session, behind the first states: why its work has ended."""
        found: list[dict[str, Any]] = []

        def is_idle() -> bool:
            found[:] = [update for update in self.states(session)[behind:] if update["state"] == "idle"]
            return bool(found)

        await self.client._wait_for(is_idle, "the session is not idle")
        return {key: value for key, value in found[0].items() if key not in ("sessionUpdate", "state")}

    async def until(self, session: str, kind: str, **members: Any) -> dict[str, Any]:
        """Wait for an update of this kind with these members."""
        wanted = {"sessionUpdate": kind, **members}
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [update for update in self.client.updates(session) if wanted.items() <= update.items()]
            return bool(found)

        await self.client._wait_for(is_there, f"no update is {wanted}")
        return found[-1]

    def states(self, session: str | None = None) -> list[dict[str, Any]]:
        return [update for update in self.client.updates(session) if update["sessionUpdate"] == "state_update"]

    def reasons(self, session: str | None = None) -> list[str]:
        """The states so far; an idle one by its reason."""
        return [update.get("stopReason", update["state"]) for update in self.states(session)]

    def record(self, session: str | None = None) -> v2.SessionRecord:
        """What the session has come to. Each update is checked."""
        record = v2.SessionRecord()
        for update in self.client.updates(session):
            record.apply(from_wire(v2.SessionUpdate, update))
        return record

    def calls(self, session: str | None = None) -> list[dict[str, Any]]:
        """Its tool calls."""
        things = self.record(session).things.items()
        return [thing.to_wire() for (kind, _), thing in things if kind == "tool_call" and isinstance(thing, v2.Patch)]


@asynccontextmanager
async def editing(
    agent: Agent, limits: Limits = CALM, capabilities: Mapping[str, Any] | None = None, *, leaks: int = 0
) -> AsyncGenerator[Editor]:
    """An editor of `agent` on version 2, initialized."""
    async with v1.editing(agent, limits, initialize=False, leaks=leaks) as plain:
        editor = Editor(plain.client, plain.stream, plain.connection)
        answer = await editor.client.result("initialize", {**HELLO, "capabilities": capabilities or {}})
        assert answer["protocolVersion"] == 2
        yield editor
