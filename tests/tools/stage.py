"""A stage for tools that are cancelled: each sort of function, with another tool beside it in the same turn."""

import functools
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server import Agent, Limits, ToolContext, ToolResult, Turn
from acp_server.apps.assistant import AssistantTool
from acp_server.tasks.threads import in_loop
from acp_server.tools.editor import BlockingEditor
from tests.apps.assistant.assistants import PLAIN
from tests.session.editor import CALM, END_TURN, Editor, editing

OF_AGENTS = ["async", "plain", "generator", "plain generator", "decorated generator"]
KINDS = [*OF_AGENTS, "assistant", "plain assistant"]
OWN, OTHER = "own", "other"


class Stage:
    """An agent whose turn runs two tools: one with an `on_cancel`, which waits to be cancelled, and one beside it."""

    def __init__(self, kind: str, on_cancel: Callable[["Stage"], Any] | None = None) -> None:
        self.kind = kind
        self.act = on_cancel
        self.agent = Agent("stage")
        self.tool = AssistantTool(PLAIN, self.agent)
        self.results: dict[str, ToolResult] = {}
        self.seen: list[Any] = []
        self.release = threading.Event()
        """Set at the end of the test: for an `on_cancel` and a thread that would go on for long."""
        self.go_on = anyio.Event()
        """Lets the tool beside it return."""
        self.running = anyio.Event()
        self.left = threading.Event()
        """The function of the first tool has ended."""
        self.acted = threading.Event()
        """The `on_cancel` of the first tool is through."""
        self.input_ended = False
        self.call: Any = None
        self.editor: Any = None
        self.turn: Any = None
        if kind == "assistant":
            self.tool.register_execute_tool(self.assistant)
        elif kind == "plain assistant":
            self.tool.register_execute_tool(self.plain_assistant)
        else:
            bodies: dict[str, Any] = {
                "async": self.body,
                "plain": self.plain,
                "generator": self.generator,
                "plain generator": self.plain_generator,
                "decorated generator": decorated(self.generator),
            }
            self.agent.tool(name="search")(bodies[kind])

        @self.agent.tool
        async def beside() -> str:
            await self.go_on.wait()
            return "done"

        @self.agent.prompt
        async def prompt(turn: Turn) -> None:
            self.turn = turn
            async with anyio.create_task_group() as group:
                group.start_soon(self.one, "search", OWN)
                group.start_soon(self.one, "beside", OTHER)

    async def one(self, name: str, id: str) -> None:
        self.results[id] = await self.turn.run_tool(name, id=id)

    @property
    def outcome(self) -> tuple[str, str | None]:
        return self.results[OWN].status, self.results[OWN].message

    # -- the function, as each sort has it

    def begin(self, target: Any) -> None:
        if self.act is not None:
            act = self.act
            target.on_cancel = lambda: act(self)

    async def body(self, call: ToolContext) -> str:
        self.call = call
        self.begin(call)
        self.running.set()
        await anyio.sleep_forever()
        return "ignored"

    async def generator(self, call: ToolContext) -> AsyncGenerator[str]:
        yield "first. "
        await self.body(call)

    def plain(self, call: ToolContext) -> str:
        self.call = call
        self.begin(call)
        return self.wait_in_thread(lambda: call.is_cancelled)

    def plain_generator(self, call: ToolContext) -> Generator[str]:
        self.call = call
        try:
            yield "first. "
            self.begin(call)
            in_loop(self.running.set)
            while not self.left.wait(0.001):
                yield ""
        finally:
            self.left.set()

    async def assistant(self) -> dict[str, Any]:
        self.begin(self.tool)
        self.running.set()
        await anyio.sleep_forever()
        return {"success": True, "message": "ignored"}

    def plain_assistant(self, params: dict[str, Any], editor: BlockingEditor) -> dict[str, Any]:
        self.editor = editor
        self.begin(self.tool)
        return {"success": True, "message": self.wait_in_thread(lambda: self.tool.is_cancelled)}

    def wait_in_thread(self, is_cancelled: Callable[[], bool]) -> str:
        in_loop(self.running.set)
        while not is_cancelled():
            self.left.wait(0.001)
        self.left.set()
        return "ignored"

    # -- the conversation

    @asynccontextmanager
    async def started(self, limits: Limits = CALM) -> AsyncGenerator[tuple[Editor, str, Any]]:
        """An editor with a turn in which both tools run."""
        try:
            async with editing(self.agent, limits) as editor:
                session = await editor.open()
                prompt = await editor.prompt(session)
                with anyio.fail_after(5):
                    await self.running.wait()
                await editor.client.expect(lambda m: status_of(m, OTHER) == "in_progress")
                yield editor, session, prompt
                if not self.input_ended:
                    await editor.settled()
            assert_nothing_later(editor, prompt)
        finally:
            self.release.set()

    async def cancelled_alone(self) -> Editor:
        """The first tool is cancelled, and the turn goes on to its end."""
        async with self.started() as (editor, session, prompt):
            await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
            await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
            self.go_on.set()
            assert await editor.answer(prompt) == END_TURN
        assert self.results[OTHER].ok
        return editor


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """As a decorator does it that knows nothing of what it decorates."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def status_of(message: Any, id: str) -> Any:
    update = message.get("params", {}).get("update", {})
    return update.get("status") if update.get("toolCallId") == id else None


def assert_nothing_later(editor: Editor, prompt: Any) -> None:
    """Behind a call's last status nothing of the call; behind the answer nothing of the turn."""
    received = editor.client.received
    answers = [i for i, m in enumerate(received) if m.get("id") == prompt and "method" not in m]
    assert len(answers) == 1
    for id in (OWN, OTHER):
        told = [i for i, m in enumerate(received) if m.get("params", {}).get("update", {}).get("toolCallId") == id]
        final = [i for i in told if status_of(received[i], id) in ("completed", "failed")]
        assert len(final) == 1
        assert final[0] == told[-1] < answers[0]
    assert "late" not in str(received)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING and "on_cancel" in r.getMessage()]


def blocks(stage: Stage) -> str:
    stage.release.wait(10)
    return "late"


def running_one(stage: Stage) -> Any:
    async def prompt(turn: Turn) -> None:
        stage.turn = turn
        await stage.one("search", OWN)

    return prompt
