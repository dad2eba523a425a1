"""Spans of OpenTelemetry: of requests, turns and tool calls."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed: make test-integrations")

from opentelemetry import trace  # pyright: ignore[reportMissingImports]
from opentelemetry.sdk.trace import TracerProvider  # pyright: ignore[reportMissingImports]
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # pyright: ignore[reportMissingImports]
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # pyright: ignore[reportMissingImports]
    InMemorySpanExporter,
)

from acp_server import Agent, InvalidParams, ToolFailed, Turn
from tests.session.editor import CANCELLED, END_TURN, editing

pytestmark = pytest.mark.anyio

TRACE = 0x0AF7651916CD43DD8448EB211C80319C
PARENT = 0xB7AD6B7169203331
META = {"traceparent": f"00-{TRACE:032x}-{PARENT:016x}-01"}

Spans = Callable[[], dict[str, Any]]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Those that have ended, by their names. A program can set its provider once, so it is set for the test alone."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return lambda: {span.name: span for span in exporter.get_finished_spans()}


def traced(begun: anyio.Event | None = None) -> Agent:
    agent = Agent("traced")

    @agent.tool
    async def look() -> str:
        """Look."""
        with trace.get_tracer_provider().get_tracer("mine").start_as_current_span("inside a task"):
            return "seen"

    @agent.tool
    def feel() -> str:
        """Feel."""
        with trace.get_tracer_provider().get_tracer("mine").start_as_current_span("inside a thread"):
            return "felt"

    @agent.tool
    async def fail() -> None:
        """Fail."""
        raise ToolFailed("not today")

    @agent.tool
    async def wait() -> None:
        """Wait."""
        if begun is not None:
            begun.set()
        await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text == "raise":
            raise InvalidParams("no")
        for name in turn.text.split():
            await turn.run_tool(name, {})

    return agent


async def test_a_tool_is_below_its_turn_and_that_below_the_request_and_the_span_that_the_client_names(
    spans: Spans,
) -> None:
    async with editing(traced()) as editor:
        session = await editor.open()
        assert await editor.ask(session, "look feel", _meta=META) == END_TURN
    found = spans()
    request, turn = found["session/prompt"], found["invoke_agent"]
    assert (request.parent.trace_id, request.parent.span_id, request.parent.is_remote) == (TRACE, PARENT, True)
    assert request.kind is trace.SpanKind.SERVER
    assert (request.attributes["rpc.system"], request.attributes["rpc.method"]) == ("jsonrpc", "session/prompt")
    assert turn.parent == request.context
    assert turn.attributes["gen_ai.conversation.id"] == session
    for name, place in (("look", "task"), ("feel", "thread")):
        tool = found[f"execute_tool {name}"]
        assert tool.parent == turn.context
        assert tool.attributes["gen_ai.tool.name"] == name
        assert found[f"inside a {place}"].parent == tool.context
    assert {span.context.trace_id for span in (found["invoke_agent"], found["execute_tool feel"])} == {TRACE}


@pytest.mark.parametrize("meta", [{}, {"traceparent": "nonsense"}, {"traceparent": [1]}, {"tracestate": "a=b"}, 7])
async def test_a_request_whose_client_names_no_span_is_below_none(spans: Spans, meta: Any) -> None:
    begun = anyio.Event()
    async with editing(traced(begun)) as editor:
        # The second is started while the task of the first, with its span, waits.
        session, other = await editor.open(), await editor.open()
        waiting = await editor.prompt(session, "wait")
        await begun.wait()
        assert await editor.ask(other, "look", _meta=meta) == END_TURN
        assert spans()["session/prompt"].parent is None
        await editor.cancel(session)
        assert await editor.answer(waiting) == CANCELLED


async def test_what_is_cancelled_says_why_and_is_no_failure(spans: Spans) -> None:
    begun = anyio.Event()
    async with editing(traced(begun)) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "wait")
        await begun.wait()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
    found = spans()
    # The turn is the work of its prompt, so both were cancelled.
    for name in ("execute_tool wait", "invoke_agent", "session/prompt"):
        assert found[name].attributes["acp.cancelled"] == "session"
        assert found[name].status.is_unset


async def test_a_tool_call_that_never_begins_has_a_span_below_its_turn(spans: Spans) -> None:
    agent = traced()

    @agent.tool(approval=True)
    async def ask() -> None:
        """Ask."""

    async with editing(agent) as editor:
        session = await editor.open()
        for ends in ("rejected", "cancelled"):
            id = await editor.prompt(session, "ask")
            asked = await editor.client.expect_request("session/request_permission")
            if ends == "cancelled":
                # Reported by the reader, in whose context there is no span.
                await editor.cancel(session)
                assert await editor.answer(id) == CANCELLED
            else:
                await editor.client.respond(asked, {"outcome": {"outcome": "selected", "optionId": "reject_once"}})
                assert await editor.answer(id) == END_TURN
            found = spans()
            tool = found["execute_tool ask"]
            assert tool.attributes.get("acp.rejected", False) == (ends == "rejected")
            assert tool.attributes.get("acp.cancelled") == (None if ends == "rejected" else "session")
            assert tool.status.is_unset
            assert tool.parent == found["invoke_agent"].context


async def test_a_request_without_a_turn_is_a_span_with_its_error(spans: Spans) -> None:
    async with editing(traced()) as editor:
        assert (await editor.ask("unknown", "look"))["code"] == -32002
    request = spans()["session/prompt"]
    assert request.attributes["rpc.jsonrpc.error_code"] == -32002
    assert "invoke_agent" not in spans()


async def test_what_fails_is_a_failure_as_far_as_it_is_one(spans: Spans) -> None:
    async with editing(traced()) as editor:
        session = await editor.open()
        assert await editor.ask(session, "fail") == END_TURN
        tool = spans()["execute_tool fail"]
        assert (tool.status.status_code, tool.attributes["error.type"]) == (trace.StatusCode.ERROR, "ToolFailed")
        assert tool.events[0].attributes["exception.message"] == "not today"
        # The turn has gone on behind it.
        assert spans()["invoke_agent"].status.is_unset
        assert (await editor.ask(session, "raise"))["code"] == -32602
        for name in ("invoke_agent", "session/prompt"):
            assert spans()[name].attributes["rpc.jsonrpc.error_code"] == -32602


async def test_without_a_provider_there_is_no_tracing() -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    async with editing(traced()) as editor:
        assert editor.connection.observers is None


def test_nothing_of_it_is_imported_by_a_program_that_does_not_use_it() -> None:
    program = (
        "import sys, anyio\n"
        "from acp_server import Agent\n"
        "from acp_server.testing import memory_pair\n"
        "async def main():\n"
        "    assert Agent('a').connect(memory_pair()[0]).observers is None\n"
        "anyio.run(main)\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)
