"""Observers: pairs of begin and end for each ending, their nesting, the bytes, and observers that misbehave."""

import logging
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from acp_server import Agent, Cause, Limits, Observer, ResourceNotFound, Span, Turn, UsageError
from acp_server.peer import observer as module
from acp_server.testing import check_observer, memory_pair
from tests.session.editor import CALM, CANCELLED, END_TURN, QUICK, editing
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio


class Recorded(Observer):
    """Holds the open spans, and what is known of each at its end."""

    def __init__(self) -> None:
        self.open: list[Span] = []
        self.ended: list[Span] = []
        self.causes: list[tuple[str, Cause | None, type[BaseException] | None]] = []
        self.bytes = {"in": 0, "out": 0}

    def begin(self, span: Span) -> None:
        assert (span.outcome, span.cause, span.error, span.seconds) == (None, None, None, 0)
        assert span not in self.open + self.ended
        self.open.append(span)

    def end(self, span: Span) -> None:
        self.open.remove(span)
        self.ended.append(span)
        self.causes.append((span.kind, span.cause, type(span.error) if span.error else None))
        assert span.seconds > 0

    def received(self, size: int) -> None:
        self.bytes["in"] += size

    def sent(self, size: int) -> None:
        self.bytes["out"] += size

    def outcomes(self, kind: str) -> list[str | None]:
        return [span.outcome for span in self.ended if span.kind == kind]


class Stubborn:
    """Waits, whatever cancels it."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.go_on = anyio.Event()

    async def wait(self) -> None:
        self.begun.set()
        with anyio.CancelScope(shield=True):
            await self.go_on.wait()


def working(*observers: Observer, stubborn: Stubborn | None = None) -> Agent:
    agent = Agent("worker", observers=observers)

    @agent.tool
    async def work() -> str:
        """Work."""
        return "done"

    @agent.tool(approval=True)
    async def ask() -> None:
        """Ask."""

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text == "child":
            async with turn.subagent("helper") as child:
                await child.run_tool("work", {})
        elif stubborn is not None:
            await stubborn.wait()
        else:
            await turn.run_tool(turn.text, {})

    return agent


async def test_each_begin_has_one_end_in_every_ending() -> None:
    seen = Recorded()
    await check_observer(seen)
    assert seen.open == []
    assert seen.outcomes("tool") == ["completed", "failed", "rejected", "cancelled", "cancelled"]
    # The fourth prompt raised. The fifth was for an unknown session, so there was no turn.
    assert seen.outcomes("turn") == ["completed", "completed", "completed", "failed", "cancelled", "cancelled"]
    prompts = [span.outcome for span in seen.ended if span.name == "session/prompt"]
    assert prompts == ["completed", "completed", "completed", "failed", "failed", "cancelled", "cancelled"]
    assert [cause for kind, cause, _ in seen.causes if kind == "turn" and cause] == [Cause.PEER, Cause.CLOSED]
    errors = [error.__name__ for _, _, error in seen.causes if error]
    assert errors == ["ToolFailed", "InvalidParams", "InvalidParams", "ResourceNotFound", "RequestCancelled"]


async def test_a_tool_call_is_below_its_turn_and_that_below_its_request() -> None:
    seen = Recorded()
    async with editing(working(seen)) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "work", _meta={"example.org/trace": 7})
        assert await editor.answer(id) == END_TURN
    tool, turn, request = seen.ended[-3:]
    assert (tool.name, turn.name, request.name) == ("work", "prompt", "session/prompt")
    assert (tool.parent, turn.parent, request.parent) == (turn, request, None)
    assert (tool.session_id, turn.session_id, request.session_id) == (session, session, None)
    assert (request.id, request.meta) == (id, {"example.org/trace": 7})
    assert turn.id
    assert str(tool.id).startswith("call_")
    assert repr(tool) == "<Span tool work completed>"


async def test_the_turn_of_a_child_session_is_below_the_turn_of_its_parent() -> None:
    seen = Recorded()
    async with editing(working(seen)) as editor:
        assert await editor.ask(await editor.open(), "child") == END_TURN
    tool, child, turn, _ = seen.ended[-4:]
    assert (tool.parent, child.parent) == (child, turn)
    assert (child.kind, child.name, child.outcome) == ("turn", "subagent", "completed")


async def test_on_version_2_a_turn_begins_after_its_request() -> None:
    seen = Recorded()
    async with v2.editing(working(seen)) as editor:
        await editor.ask(await editor.open(), "work")
    request, tool, turn = seen.ended[-3:]
    assert (request.name, turn.parent, tool.parent) == ("session/prompt", request, turn)


async def test_work_that_ignores_its_cancel_ends_with_its_grace_period() -> None:
    seen, stubborn = Recorded(), Stubborn()
    async with editing(working(seen, stubborn=stubborn), QUICK) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "wait")
        await stubborn.begun.wait()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert seen.open == []
        stubborn.go_on.set()
    ends = [(span.kind, span.outcome, span.cause) for span in seen.ended[-2:]]
    assert ends == [("turn", "cancelled", Cause.SESSION), ("request", "cancelled", Cause.SESSION)]


async def test_work_that_outlives_its_connection_has_ended_before() -> None:
    seen, stubborn = Recorded(), Stubborn()
    async with editing(working(seen, stubborn=stubborn), Limits(drain=0, grace=0), leaks=1) as editor:
        await editor.prompt(await editor.open(), "wait")
        await stubborn.begun.wait()
    assert seen.open == []
    assert [(span.kind, span.cause) for span in seen.ended[-2:]] == [("turn", Cause.CLOSED), ("request", Cause.CLOSED)]
    stubborn.go_on.set()
    await anyio.wait_all_tasks_blocked()
    assert len(seen.ended) == 4


async def test_a_question_that_is_cancelled_ends_a_tool_call_that_never_began() -> None:
    seen = Recorded()
    async with editing(working(seen)) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "ask")
        await editor.client.expect_request("session/request_permission")
        assert [span.kind for span in seen.open] == ["request", "turn"]
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
    assert seen.outcomes("tool") == ["cancelled"]
    assert seen.open == []


async def test_a_request_that_is_cancelled_before_it_begins_has_both() -> None:
    seen = Recorded()
    async with editing(working(seen)) as editor:
        session = await editor.open()
        prompt = editor.prompting(session, "work")
        await editor.client.send(prompt, editor.cancelling(session))
        assert await editor.answer(prompt["id"]) == CANCELLED
    assert (seen.ended[-1].kind, seen.ended[-1].outcome) == ("request", "cancelled")
    assert seen.outcomes("turn") == []
    assert seen.open == []


async def test_requests_without_a_handler_are_not_seen() -> None:
    seen = Recorded()
    async with editing(working(seen)) as editor:
        assert (await editor.client.ask("_nothing", {}))["error"]["code"] == -32601
    assert [span.name for span in seen.ended] == ["initialize"]


variable: ContextVar[str] = ContextVar("variable", default="unset")


class Setting(Observer):
    def begin(self, span: Span) -> None:
        variable.set(f"{variable.get()} {span.kind}")


async def test_a_handler_sees_the_context_variables_that_begin_sets() -> None:
    agent = working(Setting())
    values: list[str] = []

    @agent.tool
    def look() -> None:
        """Look."""
        values.append(variable.get())

    async with editing(agent) as editor:
        session = await editor.open()
        for _ in range(2):
            assert await editor.ask(session, "look") == END_TURN
    # The second request has the context of the first one not.
    assert values == ["unset request turn tool"] * 2


@pytest.mark.parametrize("at_once", [False, True])
async def test_the_bytes_are_those_of_the_stream(at_once: bool) -> None:
    seen = Recorded()
    mine, its = memory_pair()
    wire = {"in": 0, "out": 0}

    class Counted:
        async def receive(self) -> bytes:
            data = await its.receive()
            wire["in"] += len(data)
            return data

        async def send(self, data: bytes) -> None:
            wire["out"] += len(data)
            await its.send(data)

        async def aclose(self) -> None:
            await its.aclose()

    class AtOnce(Counted):
        def send_now(self, data: bytes) -> int:
            """Half of it, so that the rest is sent."""
            half = data[: len(data) // 2]
            its.send_nowait(half)
            wire["out"] += len(half)
            return len(half)

    connection = working(seen).connect(AtOnce() if at_once else Counted(), CALM)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        for id, method in enumerate(("initialize", "_nothing", "initialize")):
            await mine.send(b'{"jsonrpc":"2.0","id":%d,"method":"%s"}\n' % (id, method.encode()))
            while not (await mine.receive()).endswith(b"\n"):
                pass
        await mine.aclose()
    assert seen.bytes == wire
    assert wire["in"] > 100
    assert wire["out"] > 100


class Raising(Observer):
    def begin(self, span: Span) -> None:
        raise RuntimeError("begin")

    def end(self, span: Span) -> None:
        raise RuntimeError("end")

    def received(self, size: int) -> None:
        raise RuntimeError("received")

    def sent(self, size: int) -> None:
        raise RuntimeError("sent")


async def test_an_observer_that_raises_breaks_no_answer_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    seen = Recorded()
    agent = working(Raising(), seen, Raising())
    for _ in range(2):
        async with editing(agent) as editor:
            session = await editor.open()
            assert await editor.ask(session, "work") == END_TURN
            assert await editor.ask(session, "work") == END_TURN
    assert seen.open == []
    assert seen.outcomes("tool") == ["completed"] * 4
    logged = [record.getMessage() for record in caplog.records]
    assert sorted(logged) == [
        f"the observer's Raising.{name} failed; its further failures are not logged"
        for name in ("begin", "end", "received", "sent")
    ]


async def test_several_observers_end_in_the_reverse_order() -> None:
    order: list[str] = []

    class Named(Observer):
        def __init__(self, name: str) -> None:
            self._name = name

        def begin(self, span: Span) -> None:
            order.append(f"{self._name} begins")

        def end(self, span: Span) -> None:
            order.append(f"{self._name} ends")

    async with editing(working(Named("first"), Named("second"))):
        assert order == ["first begins", "second begins", "second ends", "first ends"]


async def test_an_observer_that_is_slow_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(module, "perf_counter", lambda: now)

    class Slow(Observer):
        def end(self, span: Span) -> None:
            nonlocal now
            now += 0.3

    with caplog.at_level(logging.WARNING):
        async with editing(working(Slow())) as editor:
            session = await editor.open()
            assert await editor.ask(session, "work") == END_TURN
    logged = [record.getMessage().partition(".end ")[2] for record in caplog.records]
    assert logged == ["blocked the event loop for 0.3 s; further delays are not logged"]


async def test_a_span_forgets_its_error_after_its_end() -> None:
    seen = Recorded()
    async with editing(working(seen)) as editor:
        await editor.ask("unknown", "work")
    assert seen.causes[-1] == ("request", None, ResourceNotFound)
    assert seen.ended[-1].error is None


async def test_an_agent_without_observers_makes_no_spans_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Observers, "begin", None)
    async with editing(working()) as editor:
        assert editor.connection.observers is None
        assert await editor.ask(await editor.open(), "work") == END_TURN


@pytest.mark.parametrize("observers", [Observer, Observer(), [Observer], [object()], 7])
def test_anything_else_is_refused_when_the_agent_is_made(observers: Any) -> None:
    with pytest.raises(UsageError, match="must be a list of Observer instances"):
        Agent("wrong", observers=observers)
