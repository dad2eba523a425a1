"""Talks to the built-in agent in memory, turn by turn, and holds its engines where a test wants them.

What holds for every turn is checked for every turn: nothing is said behind its answer, its tool call has ended, and no
message names a place of the machine that the client did not name.
"""

import json
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server import Limits
from acp_server.apps.coder import agent
from acp_server.apps.coder.walk import files_below
from tests.session.editor import CALM, EVERYTHING, Editor, editing

from .trees import plant

HIDDEN = "hidden-place"
"""Where a project really is; clients know it by another name."""
ROOT = str(Path(__file__).resolve().parents[3])
FINAL = ("completed", "failed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project by the name that the client has for it."""
    plant(tmp_path / HIDDEN, {"README.md": "first\nneedle\n", "src/app.py": "# TODO: needle\n"})
    (tmp_path / "project").symlink_to(tmp_path / HIDDEN, target_is_directory=True)
    return tmp_path / "project"


@pytest.fixture(autouse=True)
def nothing_worth_a_warning(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing of what a client or a project can do is a fault of the agent's."""
    yield
    assert not [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.WARNING]


@dataclass(frozen=True)
class Told:
    """One turn as the client saw it."""

    answer: Any
    updates: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(u["content"]["text"] for u in self.updates if u["sessionUpdate"] == "agent_message_chunk")

    @property
    def hits(self) -> list[str]:
        """What was said between fences, line by line."""
        return [line for block in self.text.split("~~~~\n")[1::2] for line in block.splitlines()]

    @property
    def call(self) -> dict[str, Any]:
        """The tool call as it was in the end; empty if there was none."""
        call: dict[str, Any] = {}
        for update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                call |= update
        return call

    @property
    def calls(self) -> dict[str, dict[str, Any]]:
        """All tool calls as they were in the end, by their ids."""
        calls: dict[str, dict[str, Any]] = {}
        for update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                calls.setdefault(update["toolCallId"], {}).update(update)
        return calls

    @property
    def output(self) -> dict[str, Any]:
        """The tool call's raw output."""
        return self.call["rawOutput"]

    @property
    def plans(self) -> list[list[str]]:
        """The status of each step, plan by plan."""
        return [[e["status"] for e in u["entries"]] for u in self.updates if u["sessionUpdate"] == "plan"]


class Talk(Editor):
    """An editor that knows what every turn of the built-in agent must look like."""

    async def tell(self, session: str, text: str) -> Told:
        """A whole turn."""
        return await self.told(session, await self.prompt(session, text))

    async def told(self, session: str, id: Any) -> Told:
        """What a prompt that was sent has come to."""
        answer = await self.answer(id)
        await self.settled()
        sent = next(i for i, m in enumerate(self.client.transcript.entries) if m.dir == "in" and m.msg.get("id") == id)
        behind = [e.msg for e in self.client.transcript.entries[sent + 1 :] if e.dir == "out"]
        answered = next(i for i, m in enumerate(behind) if m.get("id") == id and "method" not in m)
        updates = [_update(m, session) for m in behind]
        assert not any(updates[answered:]), self.client.transcript
        told = Told(answer, [update for update in updates[:answered] if update])
        assert all(call["status"] in FINAL for call in told.calls.values())
        return told

    async def until(self, true: Callable[[], bool]) -> None:
        """Let everything else run until something holds."""
        with anyio.fail_after(10):
            while not true():
                await anyio.lowlevel.checkpoint()


def _update(message: dict[str, Any], session: str) -> dict[str, Any] | None:
    if message.get("method") == "session/update" and message["params"]["sessionId"] == session:
        return message["params"]["update"]
    return None


@asynccontextmanager
async def talking(
    limits: Limits = CALM, capabilities: Mapping[str, Any] | None = None, *, leaks: int = 0
) -> AsyncGenerator[Talk]:
    """A conversation with the built-in agent. The client has neither files nor terminals unless the test says so."""
    capabilities = {"session": EVERYTHING["session"], **(capabilities or {})}
    async with editing(agent, limits, capabilities, leaks=leaks) as editor:
        talk = Talk(editor.client, editor.stream, editor.connection)
        yield talk
    wire = json.dumps(talk.client.received)
    assert HIDDEN not in wire
    assert ROOT not in wire
    assert "Traceback" not in wire


class Held:
    """A walk that hands out some files and then, until it is let go, nothing; it can be stopped all the while."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def files_below(self, roots: Any, path: str | None) -> Iterator[Any]:
        files = 0
        for item in files_below(roots, path):
            yield item
            files += isinstance(item, str)
            while files == self.after and not self.go_on.wait(0.001):
                self.reached.set()
                yield None


class Stuck:
    """A function that is called in a worker thread, and whose call with a certain number gets stuck there."""

    def __init__(self, function: Callable[..., Iterable[Any]], call: int) -> None:
        self._function = function
        self._calls_left = call
        self._reached = threading.Event()
        self._go_on = threading.Event()

    def __call__(self, *args: Any) -> Generator[Any]:
        self._calls_left -= 1
        if self._calls_left == 0:
            self._reached.set()
            assert self._go_on.wait(10)
        yield from self._function(*args)

    async def reached(self) -> None:
        assert await anyio.to_thread.run_sync(self._reached.wait, 10)

    def go_on(self) -> None:
        self._go_on.set()
