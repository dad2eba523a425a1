"""An agent with one tool that stops at one point of its life until it is cancelled, for each sort of function."""

import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from acp_server import Agent, RequestCancelled, Turn, UserAction, grace
from acp_server.apps.assistant import AssistantTool
from acp_server.tasks.threads import in_loop
from acp_server.tools.approval import Approval
from acp_server.tools.context import ToolContext
from acp_server.tools.editor import BlockingEditor, Editor

ID = "the_call"
POINTS = ["pending", "waiting for permission", "approved but not started", "running", "in cleanup", "answered"]
KINDS = ["async", "thread", "generator", "nested"]
ASSISTANTS = ["assistant", "assistant thread", "assistant nested"]
MANIFEST = {
    "displayName": "It",
    "id": "it",
    "description": "Does it.",
    "requireApproval": True,
}
PARTIAL = "Partial results: some"
"""What the `on_cancel` of an `AssistantTool` says."""


@dataclass
class Story:
    """One agent with one tool, which stops at one point of its life until it is cancelled."""

    point: str
    kind: str
    effects: list[str] = field(default_factory=list)
    """What the function did, and what came of it."""
    result: Any = None
    arrived: anyio.Event = field(default_factory=anyio.Event)
    """The call is where it is to be cancelled."""
    go_on: anyio.Event = field(default_factory=anyio.Event)
    """Lets what cleans up go on, in the loop and in the thread."""
    thread_goes_on: threading.Event = field(default_factory=threading.Event)
    thread_ended: anyio.Event = field(default_factory=anyio.Event)

    def release(self) -> None:
        self.go_on.set()
        self.thread_goes_on.set()

    def agent(self) -> Agent:
        agent = Agent("story")
        if self.kind in ASSISTANTS:
            self.register(AssistantTool(MANIFEST, agent))
        else:
            bodies = {"async": self.body, "thread": self.thread, "generator": self.generator, "nested": self.nested}
            agent.tool(name="it", title="It", approval=self.question)(bodies[self.kind])

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            self.result = await turn.run_tool("it", id=ID)
            if self.point == "answered":
                self.arrived.set()
                await anyio.sleep_forever()
            await turn.say(self.result.status)

        return agent

    async def question(self) -> Approval:
        if self.point == "pending":
            self.arrived.set()
            await anyio.sleep_forever()
        return Approval("May it?")

    async def body(self, call: ToolContext) -> str:
        await self.work(call)
        return "done"

    async def generator(self, call: ToolContext) -> AsyncGenerator[str]:
        self.effects.append("began")
        yield "some "
        await self.stop()
        yield "more"
        if call.is_cancelled:
            # What a generator yields after the cancel goes nowhere.
            yield "too late"

    async def nested(self, call: ToolContext) -> str:
        self.effects.append("began")
        if self.point == "running":
            await call.client.read_text_file("/project/a")
            self.effects.append("after")
        await self.stop()
        return "done"

    async def work(self, call: ToolContext) -> None:
        self.effects.append("began")
        await self.stop()

    async def stop(self) -> None:
        if self.point == "running":
            self.arrived.set()
            await anyio.sleep_forever()
            self.effects.append("after")
        elif self.point == "in cleanup":
            with grace():
                self.arrived.set()
                await self.go_on.wait()
                self.effects.append("cleaned up")
            await anyio.lowlevel.checkpoint()
            self.effects.append("after")

    def thread(self, call: ToolContext) -> str:
        self.effects.append("began")
        try:
            if self.point in ("running", "in cleanup"):
                call.run(self.set_arrived)
                self.thread_goes_on.wait(10)
                call.progress("a late word")
                call.locate("/project/late")
                with pytest.raises(RequestCancelled):
                    call.run(call.client.read_text_file, "/project/late")
                if not call.is_cancelled:
                    self.effects.append("after")
            return "done"
        finally:
            anyio.from_thread.run_sync(self.thread_ended.set, token=self.token)

    async def set_arrived(self) -> None:
        self.arrived.set()

    token: Any = None

    # -- the same as an `AssistantTool`

    def register(self, tool: AssistantTool) -> None:
        """Register its two functions."""

        async def request() -> dict[str, Any]:
            return {"message": (await self.question()).message}

        async def execute(params: dict[str, Any], action: UserAction, editor: Editor) -> dict[str, Any]:
            self.effects.append("began")
            tool.on_cancel = lambda: PARTIAL
            if self.kind == "assistant nested" and self.point == "running":
                await editor.get_file_content("a")
                self.effects.append("after")
            await self.stop()
            return {"success": True, "message": "done"}

        def execute_plainly(params: dict[str, Any], action: UserAction, editor: BlockingEditor) -> dict[str, Any]:
            self.effects.append("began")
            tool.on_cancel = lambda: PARTIAL
            try:
                if self.point in ("running", "in cleanup"):
                    in_loop(self.set_arrived)
                    self.thread_goes_on.wait(10)
                    with pytest.raises(RequestCancelled):
                        editor.write_to_file("late", "")
                    if not tool.is_cancelled:
                        self.effects.append("after")
                return {"success": True, "message": "a late word" if tool.is_cancelled else "done"}
            finally:
                anyio.from_thread.run_sync(self.thread_ended.set, token=self.token)

        tool.register_approval_request(request)
        tool.register_execute_tool_with_approval(execute_plainly if self.in_thread else execute)

    @property
    def in_thread(self) -> bool:
        """Whether the function runs in a thread."""
        return self.kind in ("thread", "assistant thread")

    @property
    def asks_for_a_file(self) -> bool:
        """Whether the function waits for the client while it runs."""
        return self.point == "running" and "nested" in self.kind

    @property
    def words(self) -> str | None:
        """What the model is to be told of its cancel."""
        return PARTIAL if self.kind in ASSISTANTS and "began" in self.effects else None
