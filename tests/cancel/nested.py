"""A nested request on a live connection, with everything in it that a cancel could hurt, and what must hold of it.

The request notifies, offers partial results, asks the peer for two things at once (one of which it would have to give
back) and for a third, and cleans up behind a shield, asking once more. The peer answers after a few steps, and heeds
cancels or does not.
"""

import json
import logging
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.writer import Writer
from acp_server.tasks.grace import grace
from tests.cancel.life import Life, late, line, some_steps
from tests.cancel.stepper import Steps, tasks
from tests.peer.handlers import CANCELLED

CANCEL = line(method="$/cancel_request", params={"requestId": 1})


@dataclass
class Story(Life):
    """One run: who did what, in which order."""

    heeds_cancel: bool = True
    """Whether the peer answers what is cancelled with an error, or with its result all the same."""
    delay: int = 4
    """Steps that the peer takes to answer."""
    created: list[int] = field(default_factory=list)
    """What the peer created for us."""
    released: list[int] = field(default_factory=list)
    """What it was given back."""
    held: list[int] = field(default_factory=list)
    """What the handler got."""
    late: list[int] = field(default_factory=list)
    """What came for a handler that was not waiting any more."""
    unanswered: dict[Any, Any] = field(default_factory=dict)
    """Our requests that the peer has not answered."""

    # -- our side

    async def work(self, call: Call) -> Any:
        self.did.append("begin")
        try:
            call.notify_peer("update", {"text": "begin"})
            async with anyio.create_task_group() as group:
                group.start_soon(self.read, call)
                group.start_soon(self.create, call)
            call.partial({"done": 1})
            self.did.append("partial")
            call.notify_peer("update", {"text": "middle"})
            await call.request_peer("read")
            self.did.append("end")
            return {"done": 2}
        finally:
            with grace():
                await self.clean(call)

    async def clean(self, call: Call) -> None:
        await anyio.lowlevel.checkpoint()
        try:
            for thing in self.held:
                await call.request_peer("release", {"id": thing})
            call.notify_peer("update", {"text": "clean"})
        except ConnectionClosed:
            self.did.append("nobody to tell")
        self.did.append("clean")

    async def read(self, call: Call) -> None:
        await call.request_peer("read")

    async def create(self, call: Call) -> None:
        self.held.append((await call.request_peer("create", on_late=self.release_late))["id"])

    def release_late(self, result: Any) -> None:
        self.late.append(result["id"])
        try:
            self.connection.notify("released", {"id": result["id"]})
        except ConnectionClosed:
            self.did.append("late without a connection")

    # -- the peer's side

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
                        asked = self.unanswered.pop(message["params"]["requestId"], None)
                        if asked is not None:
                            self.say(line(id=asked["id"], error=CANCELLED))
                    elif message.get("method") == "released":
                        self.released.append(message["params"]["id"])
            assert rest == b"", "a torn frame"

    async def answer(self, message: Any) -> None:
        for _ in range(self.delay):
            await anyio.lowlevel.checkpoint()
        if self.unanswered.pop(message["id"], None) is None:
            return
        result: Any = {}
        if message["method"] == "create":
            result = {"id": len(self.created)}
            self.created.append(result["id"])
        elif message["method"] == "release":
            self.released.append(message["params"]["id"])
        self.say(line(id=message["id"], result=result))

    def end(self) -> None:
        """The peer goes away: we can neither read nor write."""
        self.ended = True
        self.stream._incoming.end()
        self.stream._outgoing.end()

    # -- what must hold

    def check(self) -> None:
        """All of it."""
        self.check_answer()
        self.check_things()
        self.check_tables()
        assert [r.getMessage() for r in self.logged if r.levelno >= logging.WARNING] == []

    def check_tables(self) -> None:
        """Nothing is left; also where the connection broke, or work was left behind."""
        self.check_requests()
        assert self.connection.tree.size == 0
        ledger = self.connection.endpoint.ledger
        assert (len(self.connection.endpoint.incoming), ledger.outgoing, ledger.withdrawn) == (0, 0, 0)
        assert self.connection.leaked == 0
        assert [r.getMessage() for r in self.logged if r.levelno >= logging.ERROR] == []

    def answers(self) -> list[Any]:
        """What the request was answered with: results and errors."""
        answers = [frame for frame in self.sent if frame.get("id") == 1 and "method" not in frame]
        return [frame.get("result", frame.get("error")) for frame in answers]

    def check_answer(self) -> None:
        """One answer, the right one, behind all that the handler had to say, and after its cleanup."""
        (answer,) = self.answers()
        right = {"done": 2} if "end" in self.did else {"done": 1} if "partial" in self.did else CANCELLED
        # An agent that shuts down, or lost its client, does not pass off what it has as what was asked for.
        assert answer in ([right] if self.connection.tree.cause is None else [right, CANCELLED])
        if "begin" in self.did:
            assert self.did[-1] == "clean"
            kinds = ["answer" if f.get("id") == 1 and "method" not in f else f.get("method") for f in self.sent]
            assert "update" not in kinds[kinds.index("answer") :]

    def check_requests(self) -> None:
        """At most one cancel for each request of ours, behind it, and none for one whose answer was here."""
        asked: set[Any] = set()
        cancelled: set[Any] = set()
        for frame in self.sent:
            if "method" in frame and "id" in frame:
                assert frame["id"] not in asked
                asked.add(frame["id"])
            elif frame.get("method") == "$/cancel_request":
                id = frame["params"]["requestId"]
                assert id in asked
                assert id not in cancelled
                cancelled.add(id)
        answered: set[Any] = set()
        for where, frame in self.events:
            if where == "in" and "method" not in frame:
                answered.add(frame["id"])
            elif where == "put" and frame.get("method") == "$/cancel_request":
                assert frame["params"]["requestId"] not in answered

    def check_things(self) -> None:
        """Everything whose creation we heard of was handed to exactly one who gives it back."""
        makers = {frame["id"] for frame in self.sent if frame.get("method") == "create"}
        heard = [
            frame["result"]["id"]
            for where, frame in self.events
            if where == "in" and frame.get("id") in makers and "result" in frame and "method" not in frame
        ]
        assert sorted(self.held + self.late) == sorted(heard)


async def tell(
    steps: Steps,
    backend: str,
    story: Story,
) -> int:
    """Live through `story`, until its request is answered and the peer has nothing more to say; the number of steps
    until then. Then the connection ends."""
    before = tasks(backend)
    story.connection = Connection(story.meet(), Routes({"work": Route(story.work)}), Limits())
    put = Writer.put

    def noting_put(writer: Writer, frame: bytes) -> int:
        story.events.append(("put", json.loads(frame)))
        return put(writer, frame)

    with pytest.MonkeyPatch.context() as patch, story.noting_log(), anyio.fail_after(20):
        patch.setattr(Writer, "put", noting_put)
        async with anyio.create_task_group() as group:
            group.start_soon(story.run)
            group.start_soon(story.serve)
            await some_steps()
            steps.start()
            story.say(line(id=1, method="work"))
            steps.watch(backend)
            await _settled(story)
            await late(steps)
            await _settled(story)
            steps.stop()
            story.send_eof()
    assert tasks(backend) == before
    return steps.count


async def _settled(story: Story) -> None:
    """Until the request is answered and the peer owes nothing, or the connection has ended."""
    connection = story.connection
    while not connection._closed.is_set():
        if story.answers() and not story.unanswered and connection.tree.size == 0:
            break
        await anyio.lowlevel.checkpoint()
    await some_steps()
