"""Who may use the agent: authenticate, logout; and many clients of one agent."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, AuthRequired, Call, RpcError, Turn
from acp_server.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
)
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

NEEDS_LOGIN: dict[str, dict[str, Any]] = {
    "session/new": {"cwd": "/p", "mcpServers": []},
    "session/load": {"cwd": "/p", "mcpServers": []},
    "session/resume": {"cwd": "/p", "mcpServers": []},
    "session/list": {},
    "session/delete": {},
}


def guarded(store: TestStore | None = None, *, required: bool = True) -> tuple[Agent, list[str]]:
    agent = Agent("guarded", store=store)
    calls: list[str] = []

    @agent.authenticate("key", name="Key", required=required)
    async def key(call: Call) -> None:
        calls.append("key")
        match call.meta.get("key"):
            case "wrong":
                raise AuthRequired("wrong key")
            case "hang":
                await anyio.sleep_forever()
            case "crash":
                raise ValueError("secret")

    @agent.authenticate("other", name="Other")
    def other(call: Call) -> None:
        calls.append("other")

    @agent.logout
    async def logout(call: Call) -> None:
        calls.append("logout")
        if call.meta:
            raise RpcError("not now", code=-31000)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text == "hang":
            await anyio.sleep_forever()

    return agent, calls


@pytest.mark.parametrize("method", NEEDS_LOGIN)
async def test_nothing_that_needs_a_login_works_before_it(method: str) -> None:
    store = TestStore()
    agent, _ = guarded(store)
    async with editing(agent) as editor:
        await editor.client.result("authenticate", {"methodId": "key"})
        session = await editor.open("/before")
    async with editing(agent) as editor:
        params = {"sessionId": session, **NEEDS_LOGIN[method]}
        refused = await editor.refusal(method, params)
        assert (refused["code"], refused["message"]) == (AUTH_REQUIRED, "Authentication required")
        # Nor does it tell whether a session exists, or change one.
        assert await editor.refusal(method, {**params, "sessionId": "nobody"}) == refused
        assert store._records[session].cwd == "/before"
        assert await editor.client.result("authenticate", {"methodId": "other"}) == {}
        await editor.client.result(method, params)


async def test_a_login_that_is_offered_but_not_required_changes_nothing() -> None:
    agent, calls = guarded(required=False)
    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.client.result("authenticate", {"methodId": "key"}) == {}
        assert await editor.client.result("logout", {}) == {}
        assert await editor.ask(session) == END_TURN
        await editor.open()
        assert calls == ["key", "logout"]


@pytest.mark.parametrize(
    ("key", "code"), [("wrong", AUTH_REQUIRED), ("crash", INTERNAL_ERROR), ("hang", REQUEST_CANCELLED)]
)
@pytest.mark.behaviour("B18")
async def test_a_login_that_fails_or_is_cancelled_does_not_count(key: str, code: int) -> None:
    agent, _ = guarded()
    async with editing(agent) as editor:
        id = await editor.client.request("authenticate", {"methodId": "key", "_meta": {"key": key}})
        if key == "hang":
            await editor.settled()
            await editor.withdraw(id)
        assert await editor.code(id) == code
        assert (await editor.refusal("session/new", NEEDS_LOGIN["session/new"]))["code"] == AUTH_REQUIRED


@pytest.mark.parametrize("params", [None, {}, {"methodId": "never offered"}, {"methodId": 7}])
async def test_only_offered_ways_to_log_in_exist(params: Any) -> None:
    agent, calls = guarded()
    async with editing(agent) as editor:
        assert (await editor.refusal("authenticate", params))["code"] == INVALID_PARAMS
        assert not calls


async def test_after_a_logout_new_sessions_need_a_login_and_open_ones_go_on() -> None:
    agent, _ = guarded()
    async with editing(agent) as editor:
        await editor.client.result("authenticate", {"methodId": "key"})
        session = await editor.open()
        assert (await editor.refusal("logout", {"_meta": {"not": "now"}}))["code"] == -31000
        await editor.open()
        assert await editor.client.result("logout", {}) == {}
        assert (await editor.refusal("session/new", NEEDS_LOGIN["session/new"]))["code"] == AUTH_REQUIRED
        assert await editor.ask(session) == END_TURN
        assert await editor.client.result("session/close", {"sessionId": session}) == {}
        await editor.client.result("authenticate", {"methodId": "key"})
        await editor.open()


@pytest.mark.parametrize("terminal", [True, False])
async def test_a_login_in_a_terminal_is_offered_to_clients_that_can_run_one(terminal: bool) -> None:
    agent = Agent("terminal")
    agent.terminal_login("plain", name="Plain")
    agent.terminal_login("term", name="Term", description="In a terminal", args=["--login"], env={"K": "v"})

    @agent.authenticate("key", name="Key")
    async def key(call: Call) -> None: ...

    async with editing(agent, initialize=False) as editor:
        offered = (await editor.initialize({"auth": {"terminal": terminal}}))["authMethods"]
        plain = {"type": "terminal", "id": "plain", "name": "Plain"}
        term = {
            "type": "terminal",
            "id": "term",
            "name": "Term",
            "description": "In a terminal",
            "args": ["--login"],
            "env": {"K": "v"},
        }
        assert offered == [*([plain, term] if terminal else []), {"id": "key", "name": "Key"}]
        # It is never asked for over the protocol.
        assert (await editor.refusal("authenticate", {"methodId": "term"}))["code"] == INVALID_PARAMS


async def test_an_agent_without_logins_has_no_methods_for_them() -> None:
    agent = Agent("open")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        for method in ("authenticate", "logout"):
            assert (await editor.refusal(method, {"methodId": "key"}))["code"] == METHOD_NOT_FOUND


@pytest.mark.behaviour("F6", "F16")
async def test_one_agent_serves_many_clients_and_keeps_them_apart() -> None:
    agent, _ = guarded()
    async with editing(agent) as first, editing(agent) as second:
        await first.client.result("authenticate", {"methodId": "key"})
        session = await first.open()
        # The login of one is none of the other.
        assert (await second.refusal("session/new", NEEDS_LOGIN["session/new"]))["code"] == AUTH_REQUIRED
        await second.client.result("authenticate", {"methodId": "key"})
        assert (await second.ask(session))["code"] == RESOURCE_NOT_FOUND
        id = await first.prompt(session, "hang")
        await first.settled()
        await second.cancel(session)
        await second.client.result("session/close", {"sessionId": session})
        assert not agent.interrupt(second.connection)
        await first.settled()
        await first.cancel(session)
        assert await first.answer(id) == CANCELLED
        # What is kept is shared.
        listed = await second.client.result("session/list", {})
        assert [entry["sessionId"] for entry in listed["sessions"]] == [session]
