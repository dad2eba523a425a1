"""A conversation of version 2 with everything in it that a cancel could hurt, and what must hold of it.

The first prompt runs a tool that has to be approved, asks the user something, and cleans up behind a shield. The second
one is held meanwhile. The client answers what it is asked after a few steps, and heeds withdrawals or does not.
"""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel

from acp_server import Agent, ConnectionClosed, Limits, Turn, TurnEnded, grace
from acp_server.schema.tool_call import PermissionOption, ToolCallUpdate
from acp_server.session.setup import is_ready, load_for_prompts
from tests.cancel.life import Life, late, line, some_steps
from tests.cancel.stepper import Steps, tasks

TOOL = "the_call"
FIRST, SECOND, STOP, END, AGAIN = 1, 2, 3, 4, 5
"""The ids of the two prompts; of `tool_call/cancel`; of what ends the session; of the same once more."""
CANCELLED = -32800
FINAL = ("completed", "failed", "cancelled")
OPTIONS = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]


@dataclass
class Conversation(Life):
    """One run: who did what, in which order."""

    heeds_cancel: bool = True
    """Whether the client answers what is withdrawn at once, or as if it had not been."""
    delay: int = 2
    """Steps that the client takes to answer."""
    said: list[str] = field(default_factory=list)
    """The methods of what the client said to cancel something."""
    asked: set[int] = field(default_factory=set)
    """The ids of the client's requests."""
    unanswered: dict[Any, Any] = field(default_factory=dict)
    """The agent's requests that the client has not answered."""
    session: str = ""

    # -- the agent

    def agent(self) -> Agent:
        agent = Agent("story")

        @agent.tool(approval=True)
        async def work() -> AsyncIterator[str]:
            self.did.append("tool")
            yield "half"
            await anyio.lowlevel.checkpoint()
            yield "whole"

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            self.did.append(f"begin {turn.text}")
            try:
                await turn.say("one")
                if turn.text == "first":
                    result = await turn.run_tool("work", id=TOOL)
                    await turn.say(result.status)
                    question = ToolCallUpdate(tool_call_id="question")
                    await turn.client.request_permission(question, OPTIONS)
                await anyio.lowlevel.checkpoint()
                await turn.say("two")
            finally:
                with grace(), suppress(TurnEnded, ConnectionClosed):
                    await anyio.lowlevel.checkpoint()
                    await turn.say("clean")
                self.did.append(f"clean {turn.text}")

        return agent

    # -- the client

    async def serve(self) -> None:
        async with anyio.create_task_group() as group:
            rest = b""
            while data := await self.stream.receive():
                *lines, rest = (rest + data).split(b"\n")
                for text in lines:
                    message = json.loads(text)
                    if "method" in message and "id" in message:
                        self.unanswered[message["id"]] = message
                        group.start_soon(self.answer, message)
                    elif message.get("method") == "$/cancel_request" and self.heeds_cancel:
                        id = message["params"]["requestId"]
                        if self.unanswered.pop(id, None) is not None:
                            self.say(line(id=id, result={"outcome": {"outcome": "cancelled"}}))
            assert rest == b"", "a torn frame"

    async def answer(self, message: Any) -> None:
        for _ in range(self.delay):
            await anyio.lowlevel.checkpoint()
        if self.unanswered.pop(message["id"], None) is not None:
            choice = message["params"]["options"][0]["optionId"]
            self.say(line(id=message["id"], result={"outcome": {"outcome": "selected", "optionId": choice}}))

    def ask(self, id: int, method: str, **params: Any) -> None:
        """Ask for something; what is about the session names it."""
        self.asked.add(id)
        about = {} if method in ("initialize", "session/new") else {"sessionId": self.session}
        self.say(line(id=id, method=method, params={**about, **params}))

    def prompt(self, *texts: str) -> None:
        """Send prompts, in one chunk."""
        data = b""
        for id, text in enumerate(texts, FIRST):
            self.asked.add(id)
            params = {"sessionId": self.session, "prompt": [{"type": "text", "text": text}]}
            data += line(id=id, method="session/prompt", params=params)
        self.say(data)

    def stop(self, method: str, id: int | None = None, **params: Any) -> None:
        """Ask or tell something that cancels."""
        self.said.append(method)
        if id is not None:
            self.ask(id, method, **params)
        else:
            self.say(line(method=method, params=params or {"sessionId": self.session}))

    async def greet(self) -> None:
        """Have a session."""
        self.ask(-1, "initialize", protocolVersion=2, info={"name": "x", "version": "1"}, capabilities={})
        await self.until(lambda: self.answers(-1))
        self.ask(-2, "session/new", cwd="/project")
        await self.until(lambda: self.answers(-2))
        self.session = self.answers(-2)[0]["sessionId"]
        await some_steps()

    async def until(self, true: Any) -> None:
        while not true() and not self.connection._closed.is_set():
            await anyio.lowlevel.checkpoint()

    # -- what was said

    def answers(self, id: int) -> list[Any]:
        """What a request was answered with: results, and codes of errors."""
        frames = [frame for frame in self.sent if frame.get("id") == id and "method" not in frame]
        return [frame["result"] if "result" in frame else frame["error"]["code"] for frame in frames]

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [frame["params"]["update"] for frame in self.sent if frame.get("method") == "session/update"]

    @property
    def inserted(self) -> list[str]:
        return [one["messageId"] for one in self.updates if one["sessionUpdate"] == "user_message"]

    @property
    def reasons(self) -> list[str]:
        return [one["stopReason"] for one in self.updates if one.get("state") == "idle" and "stopReason" in one]

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to be done but to keep the session."""
        return (
            all(self.answers(id) for id in self.asked)
            and not self.unanswered
            and len(self.reasons) == len(self.inserted)
            and self.connection.tree.size <= 1
        )

    # -- what must hold

    def check(self) -> None:
        """All of it."""
        self.check_answers()
        self.check_runs()
        self.check_tool_call()
        self.check_end_of_session()
        self.check_questions()
        assert self.connection.tree.size == 0
        ledger = self.connection.endpoint.ledger
        assert (len(self.connection.endpoint.incoming), ledger.outgoing, ledger.withdrawn) == (0, 0, 0)
        assert self.connection.leaked == 0
        assert [r.getMessage() for r in self.logged if r.levelno >= logging.ERROR] == []
        begun = [step.removeprefix("begin ") for step in self.did if step.startswith("begin")]
        assert [step.removeprefix("clean ") for step in self.did if step.startswith("clean")] == begun

    def check_answers(self) -> None:
        """One for each request; a prompt's names the message that was inserted, or there is none."""
        for id in self.asked:
            assert len(self.answers(id)) == 1, id
        named = [answer["messageId"] for id in (FIRST, SECOND) for answer in self.answers(id) if answer != CANCELLED]
        assert named == self.inserted

    def check_runs(self) -> None:
        """Each message that was inserted has one `idle`, all that is said of it is said before, and nothing of what was
        not inserted is said at all."""
        works_on: str | None = None
        state = "idle"
        for update in self.updates:
            match update["sessionUpdate"], update.get("state"):
                case "user_message", _:
                    assert works_on is None
                    works_on = update["messageId"]
                case "state_update", "idle":
                    if "stopReason" in update:
                        assert works_on is not None
                    works_on, state = None, "idle"
                case "state_update", now:
                    assert works_on is not None
                    assert now != state
                    assert (now, state) != ("requires_action", "idle")
                    state = now
                case _:
                    assert works_on is not None
                    assert update.get("messageId", works_on).startswith(works_on)
        assert works_on is None
        if not {"session/cancel", "session/close", "session/delete", "session/resume"} & {*self.said}:
            assert "cancelled" not in self.reasons

    def check_tool_call(self) -> None:
        """It can be cancelled from its first update to its last one, which is the one with a final status."""
        updates = [update for update in self.updates if update.get("toolCallId") == TOOL]
        if updates:
            first, last = updates[0], updates[-1]
            assert (first["status"], first["capabilities"]) == ("pending", {"cancel": {}})
            assert last["status"] in FINAL
            assert last["capabilities"] is None
            assert not [one for one in updates[1:-1] if "capabilities" in one or one["status"] in FINAL]
            if last["status"] == "cancelled":
                # What it had found is in it, if it had begun to look.
                assert not last.get("content") or last["content"][0]["content"]["text"] in ("half", "halfwhole")
        accepted = self.answers(STOP) == [{}]
        if accepted:
            assert updates
            answered = self.place_of_answer(STOP)
            ended = next(place for place, frame in enumerate(self.sent) if _update(frame).get("status") in FINAL)
            # A call of which the client knew the end could not be cancelled. One that was ends as that.
            assert answered < ended or updates[-1]["status"] == "cancelled"

    def check_end_of_session(self) -> None:
        """Nothing of a session is said, asked or answered behind the answer to what ended it."""
        if not any(answer != CANCELLED for answer in self.answers(END)):
            return
        behind = self.sent[self.place_of_answer(END) + 1 :]
        assert not [frame for frame in behind if frame.get("method") == "session/update"]
        assert not [frame for frame in behind if "method" in frame and "id" in frame]
        assert not [frame for frame in behind if frame.get("id") in (FIRST, SECOND)]

    def check_questions(self) -> None:
        """At most one withdrawal for each question, behind it."""
        asked: list[Any] = []
        for frame in self.sent:
            if frame.get("method") == "$/cancel_request":
                asked.remove(frame["params"]["requestId"])
            elif "method" in frame and "id" in frame:
                asked.append(frame["id"])

    def place_of_answer(self, id: int) -> int:
        return next(n for n, frame in enumerate(self.sent) if frame.get("id") == id and "method" not in frame)


def _update(frame: Any) -> dict[str, Any]:
    return frame.get("params", {}).get("update", {})


async def tell(steps: Steps, backend: str, story: Conversation) -> int:
    """Live through the conversation, until all is answered and nothing is worked on; the number of steps until then.
    Then the connection ends."""
    if not is_ready():
        # Otherwise a thread does it, whose steps are not the scheduler's.
        await load_for_prompts()
    before = tasks(backend)
    story.connection = story.agent().connect(story.meet(), Limits())
    with story.noting_log(), anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(story.run)
            group.start_soon(story.serve)
            await story.greet()
            steps.start()
            story.prompt("first", "second")
            steps.watch(backend)
            await story.until(lambda: story.is_settled)
            await some_steps()
            await late(steps)
            await story.until(lambda: story.is_settled)
            await some_steps()
            steps.stop()
            story.send_eof()
    assert tasks(backend) == before
    return steps.count
