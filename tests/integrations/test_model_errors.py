"""What a user is told when the model or its server fails."""

from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed: make test-integrations")

import pydantic_ai  # pyright: ignore[reportMissingImports]

from acp_server.integrations.pydantic_ai import from_agent
from tests.integrations import contract
from tests.integrations.model_server import HANG, Refusal, Stop, model_server, tool_call
from tests.integrations.test_pydantic_ai import make, model_at
from tests.session.editor import editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (401, "invalid_api_key", "does not accept the key (test, HTTP 401 Unauthorized, invalid_api_key)."),
        (404, "model_not_found", "does not know this model (test, HTTP 404 Not Found, model_not_found)."),
        (429, "rate_limit_exceeded", "try again later (test, HTTP 429 Too Many Requests, rate_limit_exceeded)."),
        (429, "insufficient_quota", "no credit left (test, HTTP 429 Too Many Requests, insufficient_quota)."),
        (
            400,
            "context_length_exceeded",
            "too long for the model (test, HTTP 400 Bad Request, context_length_exceeded).",
        ),
        (400, f"a code with {contract.SECRET}", "refuses the request (test, HTTP 400 Bad Request)."),
        (500, None, "has failed; try again later (test, HTTP 500 Internal Server Error)."),
    ],
)
async def test_what_its_server_refuses_is_told_in_our_own_words(status: int, code: Any, told: str) -> None:
    refusal = Refusal(status, {"message": f"Incorrect: {contract.SECRET}", "type": "x", "code": code})
    async with model_server(refusal) as server, editing(make(server, contract.Tools())) as editor:
        error = await editor.answer(await editor.prompt(await editor.open(), "Why?"))
        assert error["code"] == -32603
        assert error["message"].endswith(told.format(code))
        assert contract.SECRET not in str(editor.client.received)


@pytest.mark.parametrize(
    ("reason", "stopped"), [("length", "max_tokens"), ("content_filter", "refusal"), ("stop", "end_turn")]
)
async def test_why_the_model_has_stopped_is_why_the_turn_has(reason: str, stopped: str) -> None:
    async with model_server(["Because", Stop(reason)]) as server, editing(make(server, contract.Tools())) as editor:
        assert (await editor.ask(await editor.open(), "Why?"))["stopReason"] == stopped
        assert ("answer" in "".join(editor.said())) == (stopped != "end_turn")


async def test_a_model_that_never_comes_to_an_end_is_stopped_and_the_next_turn_goes_on_from_there() -> None:
    replies = [[tool_call("look", {"word": "a"}, f"call_{number}")] for number in range(3)]
    limits = pydantic_ai.UsageLimits(request_limit=3)
    async with (
        model_server(*replies) as server,
        editing(make(server, contract.Tools(), usage_limits=limits)) as editor,
    ):
        session = await editor.open()
        assert (await editor.ask(session, "Look."))["stopReason"] == "max_turn_requests"
        assert editor.said()[-1].endswith("The turn has reached the limit of what it may use.")
        server.replies.append(["Fine."])
        assert (await editor.ask(session, "Go on."))["stopReason"] == "end_turn"
        roles = [message["role"] for message in server.requests[-1]["messages"]]
        assert roles.count("tool") == 3


async def test_an_agent_that_ends_its_own_run_ends_the_turn_and_keeps_what_it_has_done() -> None:
    async with model_server([tool_call("enough", {})], ["Fine."]) as server:
        assistant = pydantic_ai.Agent(model_at(server))

        @assistant.tool
        async def enough(context: pydantic_ai.RunContext) -> str:
            """Stop here."""
            context.cancel()
            return "never told"

        async with editing(from_agent(assistant)) as editor:
            session = await editor.open()
            assert (await editor.ask(session, "Look."))["stopReason"] == "end_turn"
            assert (await editor.ask(session, "Go on."))["stopReason"] == "end_turn"
            roles = [message["role"] for message in server.requests[-1]["messages"]]
            assert roles == ["user", "assistant", "tool", "user"]


async def test_what_a_cancelled_turn_has_cost_is_told() -> None:
    async with (
        model_server([tool_call("look", {"word": "a"})], [HANG]) as server,
        editing(make(server, contract.Tools())) as editor,
    ):
        session = await editor.open()
        id = await editor.prompt(session, "Why?")
        await server.hanging.wait()
        await editor.cancel(session)
        answer = await editor.answer(id)
        assert (answer["stopReason"], answer["_meta"]["usage"]["totalTokens"]) == ("cancelled", 5)
