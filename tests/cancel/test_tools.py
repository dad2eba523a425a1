"""A tool call is cancelled at each point of its life, in each way, whatever sort of function it has."""

import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from acp_server import Agent, Limits, RequestCancelled, Turn, grace
from acp_server.tools.consent import Approval
from acp_server.tools.context import ToolContext
from tests.session.editor import CALM, CANCELLED, END_TURN, Editor, editing

ID = "the_call"
PERMISSION = "session/request_permission"
READ = "fs/read_text_file"
ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

POINTS = ["pending", "waiting for permission", "approved but not started", "running", "in cleanup", "answered"]
CUTS = ["tool", "turn", "request", "end of input"]
KINDS = ["async", "thread", "generator", "nested"]

pytestmark = pytest.mark.anyio


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
        body = {"async": self.body, "thread": self.thread, "generator": self.generator, "nested": self.nested}[
            self.kind
        ]
        agent.tool(name="it", title="It", approval=self.question)(body)

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
        await self.stop(call)
        yield "more"
        if call.is_cancelled:
            # What a generator yields after the cancel goes nowhere.
            yield "too late"

    async def nested(self, call: ToolContext) -> str:
        self.effects.append("began")
        if self.point == "running":
            await call.client.read_text_file("/project/a")
            self.effects.append("after")
        await self.stop(call)
        return "done"

    async def work(self, call: ToolContext) -> None:
        self.effects.append("began")
        await self.stop(call)

    async def stop(self, call: ToolContext) -> None:
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


async def cut(cut: str, editor: Editor, session: str, prompt: Any) -> Any:
    """Cancel in this way: what the client is answered, if it asked for it."""
    if cut == "tool":
        return await editor.answer(await editor.client.request("_tool_call/cancel", _named(session)))
    if cut == "turn":
        await editor.cancel(session)
    elif cut == "request":
        await editor.withdraw(prompt)
    else:
        editor.stream.end_input()
    return None


def _named(session: str) -> dict[str, str]:
    return {"sessionId": session, "toolCallId": ID}


def statuses(editor: Editor) -> list[str]:
    return [u["status"] for u in editor.client.updates() if u.get("toolCallId") == ID and "status" in u]


@pytest.mark.behaviour("F6", "C1", "A1")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", CUTS)
@pytest.mark.parametrize("point", POINTS)
async def test_a_tool_call_ends_with_a_final_status_and_its_prompt_with_one_answer(
    point: str, way: str, kind: str
) -> None:
    story = Story(point, kind)
    story.token = anyio.lowlevel.current_token()
    asked = point in ("waiting for permission", "approved but not started")
    may_finish = (point, way) == ("approved but not started", "end of input")
    async with editing(story.agent(), Limits(drain=5) if may_finish else CALM) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        if point == "pending":
            await story.arrived.wait()
        else:
            request = await editor.client.expect_request(PERMISSION)
            if not asked:
                await editor.client.respond(request, ALLOW)
                if kind == "nested" and point == "running":
                    await editor.client.expect_request(READ)
                else:
                    await story.arrived.wait()
        outcome: Any = None
        if point == "approved but not started":
            # In one chunk: the yes has arrived, and nothing has been done about it.
            yes = {"jsonrpc": "2.0", "id": request["id"], "result": ALLOW}
            if way == "end of input":
                await editor.client.send(yes)
                editor.client._stream.send_eof()  # pyright: ignore[reportAttributeAccessIssue]
            else:
                no = {
                    "tool": editor.client.new_request("_tool_call/cancel", _named(session), id="cancel"),
                    "turn": editor.cancelling(session),
                    "request": {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": prompt}},
                }[way]
                await editor.client.send(yes, no)
                outcome = await editor.answer("cancel") if way == "tool" else None
        else:
            outcome = await cut(way, editor, session, prompt)
        if point == "waiting for permission" and way != "end of input":
            # A yes that comes too late.
            await editor.client.expect("$/cancel_request")
            await editor.client.respond(request, ALLOW)
        if point == "answered" and way == "tool":
            assert outcome["code"] == -32602
            await editor.cancel(session)
        elif way == "tool":
            assert outcome == {}
        if point == "in cleanup":
            # The client knows before the cleaning up is over.
            await editor.client.expect(lambda m: _status(m) == "failed")
            story.go_on.set()
        answer = await editor.answer(prompt)
        story.release()
        if kind == "thread" and "began" in story.effects:
            with anyio.fail_after(5):
                await story.thread_ended.wait()
        if way != "end of input":
            await editor.settled()

    if may_finish:
        # Not a cancel: what was asked for before the end is still done, if it is quick.
        assert statuses(editor) == ["pending", "in_progress", "completed"]
        assert answer == END_TURN
        return

    # Who gets which message.
    if point == "answered":
        assert statuses(editor) == ["pending", "in_progress", "completed"]
    else:
        started = ["in_progress"] if point in ("running", "in cleanup") else []
        assert statuses(editor) == ["pending", *started, "failed"]
    if way == "end of input":
        assert_ended(story, answer)
    elif way == "tool" and point != "answered":
        assert answer == END_TURN
        assert editor.said() == ["cancelled"]
        assert story.result.message is None
    else:
        assert answer == CANCELLED
    if way != "end of input":
        waits = {PERMISSION: point == "waiting for permission", READ: kind == "nested" and point == "running"}
        assert len(editor.withdrawn()) == sum(waits.values())

    # No side effect runs after a cancel, and a late yes runs nothing.
    assert "after" not in story.effects
    assert ("began" in story.effects) == (point in ("running", "in cleanup", "answered"))
    received = editor.client.received
    last = max(i for i, m in enumerate(received) if m.get("params", {}).get("update", {}).get("toolCallId"))
    ended = next(i for i, m in enumerate(received) if m.get("id") == prompt and "method" not in m)
    assert last < ended
    assert "too late" not in str(editor.client.received)
    assert "a late word" not in str(editor.client.received)
    assert "/project/late" not in str(editor.client.received)


def assert_ended(story: Story, answer: Any) -> None:
    """At the end of input requests of ours fail at once, and what runs is cut a moment later."""
    waiting = story.point == "waiting for permission" or (story.kind == "nested" and story.point == "running")
    if waiting:
        assert story.result.status == "failed"
        assert answer == END_TURN
    else:
        assert answer["code"] == -32800


def _status(message: Any) -> Any:
    return message.get("params", {}).get("update", {}).get("status")
