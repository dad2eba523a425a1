"""Two connections talk to each other, at random: every request ends exactly once, and nothing is left."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_server.errors import ConnectionClosed, RequestTimeout, RpcError
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.tasks.grace import grace
from acp_server.testing import FaultyStream, MemoryStream, memory_pair
from tests.peer.ends import PATIENCE, Answers, assert_over, listen

pytestmark = pytest.mark.anyio

LIMITS = Limits(drain=0.001, grace=5, flush=5)
ENOUGH = 30
"""Checkpoints after which whatever can be settled without a further push is settled, nearly always."""


class Recorder(FaultyStream):
    """Keeps what was sent."""

    def __init__(self, stream: MemoryStream) -> None:
        super().__init__(stream)
        self.stream = stream
        self.data = b""

    async def send(self, data: bytes) -> None:
        await super().send(data)
        self.data += data


class Side:
    """One of the two: it answers, asks, and keeps what became of it."""

    def __init__(self, stream: MemoryStream) -> None:
        self.recorder = Recorder(stream)
        routes = Routes(
            {
                "quick": Route(self.quick),
                "slow": Route(self.slow),
                "hang": Route(self.hang),
                "nested": Route(self.nested),
                "tidy": Route(self.tidy),
            }
        )
        listen(routes, "note", lambda _params: None)
        listen(routes, "asking", self.asking)
        self.connection = Connection(self.recorder, routes, LIMITS)
        self.answers = Answers(self.connection)
        self.asked = 0
        self.raised: BaseException | None = None
        self.released = 0

    async def run(self) -> None:
        try:
            await self.connection.run()
        except Exception as error:
            self.raised = error

    async def quick(self, call: Call) -> Any:
        return call.params["name"]

    async def slow(self, call: Call) -> Any:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        call.partial("a part")
        await anyio.lowlevel.checkpoint()
        return call.params["name"]

    async def hang(self, _call: Call) -> None:
        await anyio.sleep_forever()

    async def nested(self, call: Call) -> Any:
        """Ask for two things at once, of which one may hang, and for one behind it."""
        async with anyio.create_task_group() as group:
            for method in ("slow", "tidy"):
                group.start_soon(self.connection.request, method, {"name": method})
        return await self.connection.request("quick", {"name": call.params["name"]}, on_late=self.release)

    async def tidy(self, call: Call) -> Any:
        try:
            return await self.connection.request("slow", {"name": call.params["name"]}, on_late=self.release)
        finally:
            with grace():
                try:
                    await self.connection.request("quick", {"name": "clean"})
                except ConnectionClosed:
                    pass

    async def asking(self, _params: Any) -> None:
        try:
            await self.connection.request("quick", {"name": "from a notification"})
        except (ConnectionClosed, RpcError):
            pass

    def release(self, _result: Any) -> None:
        self.released += 1

    def is_settled(self) -> bool:
        connection = self.connection
        debts = connection.endpoint.ledger.outgoing + connection.tree.size + connection.writer.size
        return debts + connection.work.running == 0 and len(self.answers.of) == self.asked

    def frames(self) -> list[Any]:
        *lines, rest = self.recorder.data.split(b"\n")
        assert rest == b"" or self.raised is not None or self.connection.writer.size == 0
        return [json.loads(line) for line in lines]


def check(asking: Side, answering: Side, undisturbed: bool) -> None:
    """What `asking` asked, and `answering` answered: each id once, cancels once and behind their requests."""
    asked: list[Any] = []
    cancelled: list[Any] = []
    for frame in asking.frames():
        if "method" in frame and "id" in frame:
            asked.append(frame["id"])
        elif frame.get("method") == "$/cancel_request":
            assert frame["params"]["requestId"] in asked
            cancelled.append(frame["params"]["requestId"])
    answered = [frame["id"] for frame in answering.frames() if "method" not in frame]
    assert len(set(asked)) == len(asked)
    assert len(set(cancelled)) == len(cancelled)
    assert len(set(answered)) == len(answered)
    assert set(answered) <= set(asked)
    if undisturbed:
        assert set(answered) == set(asked)
    assert len(asking.answers.of) == asking.asked
    for outcome in asking.answers.of.values():
        assert isinstance(outcome, (str, RpcError, RequestTimeout, ConnectionClosed)), outcome


ask = st.tuples(st.just("ask"), st.sampled_from(["quick", "slow", "hang", "nested", "tidy"]), st.booleans())
cut = st.tuples(st.just("cut"), st.integers(0, 20))
tell = st.tuples(st.just("tell"), st.sampled_from(["note", "asking", "unknown"]))
pause = st.tuples(st.just("pause"), st.integers(1, 12))
step = st.tuples(st.booleans(), st.one_of(ask, ask, ask, cut, cut, tell, pause, pause))
ending = st.sampled_from(["settle", "close", "half-close", "hang up", "break", "read error"])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, max_size=25), ending=ending, ending_side=st.booleans())
async def test_every_request_ends_once_whatever_happens(steps: list[Any], ending: str, ending_side: bool) -> None:
    one, other = memory_pair()
    sides = (Side(one), Side(other))
    left, right = sides
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for side in sides:
                group.start_soon(side.run)
            for which, (kind, *what) in steps:
                await take(group.start_soon, sides[which], kind, what)
            if ending == "settle":
                await settle(left, right)
                left.connection.close()
            else:
                end(sides[ending_side], ending)
            for side in sides:
                # The end of one is the end of the other.
                await side.connection.wait_closed()
    for side in sides:
        assert_over(side.connection)
        assert (side.raised is None) == (ending != "read error" or side is not sides[ending_side])
    check(left, right, ending == "settle")
    check(right, left, ending == "settle")


async def take(start: Callable[..., object], side: Side, kind: str, what: list[Any]) -> None:
    match kind:
        case "ask":
            method, limited = what
            name = str(side.asked)
            side.asked += 1
            start(lambda: side.answers.ask(name, method, timeout=0.0005 if limited else None, on_late=side.release))
        case "cut":
            names = list(side.answers.scopes)
            if names:
                side.answers.cancel(names[what[0] % len(names)])
        case "tell":
            side.connection.notify(what[0])
        case _:
            for _ in range(what[0]):
                await anyio.lowlevel.checkpoint()


async def settle(left: Side, right: Side) -> None:
    """Cut what is left, so that all of it is answered."""
    settled = False
    while not settled:
        settled = all(side.is_settled() for side in (left, right))
        for side in (left, right):
            for scope in side.answers.scopes.values():
                scope.cancel()
        # The last answers may be still on their way.
        for _ in range(ENOUGH):
            await anyio.lowlevel.checkpoint()


def end(side: Side, how: str) -> None:
    match how:
        case "close":
            side.connection.close()
        case "half-close":
            side.recorder.stream.send_eof()
        case "hang up":
            side.recorder.end_input()
        case "break":
            side.recorder.break_sending()
            side.connection.notify("note")
        case _:
            side.recorder.fail_reading(OSError("broken"))
