"""What holds for every method that a client can call."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, Call, Session, Turn, schema
from acp_server.errors import INVALID_PARAMS, REQUEST_CANCELLED
from tests.session.agents import setup
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

CALLS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": 1},
    "authenticate": {"methodId": "key"},
    "logout": {},
    "session/new": setup(),
    "session/load": setup("?"),
    "session/resume": setup("?"),
    "session/list": {},
    "session/close": {"sessionId": "?"},
    "session/delete": {"sessionId": "?"},
    "session/set_mode": {"sessionId": "?", "modeId": "b"},
    "session/set_config_option": {"sessionId": "?", "configId": "c", "value": "2"},
    "session/prompt": {"sessionId": "?", "prompt": [{"type": "text", "text": "go"}]},
    "_own": {"a": 1},
}


def complete(seen: list[str]) -> tuple[Agent, TestStore]:
    """An agent that has every method; `seen` tells which functions of its author were called."""
    store = TestStore()
    agent = Agent("complete", store=store)
    agent.modes(schema.SessionMode(id="a", name="A"), schema.SessionMode(id="b", name="B"))
    values = [schema.SessionConfigSelectOption(value=value, name=value) for value in ("1", "2")]
    agent.config_options(schema.SessionConfigSelect(id="c", name="C", current_value="1", options=values))

    @agent.authenticate("key", name="Key")
    def authenticate(call: Call) -> None:
        seen.append("authenticate")

    @agent.logout
    def logout(call: Call) -> None:
        seen.append("logout")

    @agent.session
    def session(session: Session) -> None:
        seen.append("session")

    @agent.set_mode
    def set_mode(session: Session, mode: str) -> None:
        seen.append("set_mode")

    @agent.set_config_option
    def set_config_option(session: Session, id: str, value: Any) -> None:
        seen.append("set_config_option")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        seen.append("prompt")

    @agent.method("_own")
    async def own(call: Call, a: int) -> int:
        seen.append("_own")
        return a

    return agent, store


def for_session(params: dict[str, Any], session: str) -> dict[str, Any]:
    return {key: session if value == "?" else value for key, value in params.items()}


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.behaviour("B18", "B3", "B4")
async def test_a_request_that_is_cancelled_in_its_own_chunk_is_answered_and_has_done_nothing(method: str) -> None:
    seen: list[str] = []
    agent, store = complete(seen)
    async with editing(agent) as editor:
        session = await editor.open()
        seen.clear()
        store.calls.clear()
        request = editor.client.new_request(method, for_session(CALLS[method], session))
        cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request["id"]}}
        await editor.client.send(request, cancel)
        answer = await editor.answer(request["id"])
        cancelled = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        assert answer == (CANCELLED if method == "session/prompt" else cancelled)
        await editor.settled()
        await anyio.wait_all_tasks_blocked()
        assert (seen, store.calls) == ([], [])
        assert await editor.ask(session) == END_TURN


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.behaviour("A7", "A1")
async def test_parameters_of_a_wrong_shape_are_refused_and_nothing_is_done(method: str) -> None:
    seen: list[str] = []
    agent, _ = complete(seen)
    async with editing(agent) as editor:
        session = await editor.open()
        seen.clear()
        params = for_session(CALLS[method], session)
        for wrong in ({key: {"junk": [1]} for key in params}, dict.fromkeys(params), {}) if params else ():
            assert (await editor.refusal(method, wrong))["code"] == INVALID_PARAMS
        assert not seen
        assert await editor.ask(session) == END_TURN


@pytest.mark.parametrize("method", CALLS)
async def test_meta_and_unknown_fields_change_nothing(method: str) -> None:
    seen: list[str] = []
    agent, _ = complete(seen)
    async with editing(agent) as editor:
        session = await editor.open()
        extra = {"_meta": {"sessionId": "other", "cwd": "x"}, "unknownField": {"a": [1]}}
        await editor.client.result(method, {**for_session(CALLS[method], session), **extra})
