"""How many sessions a client can open, and how much it can name for them."""

from typing import Any

import pytest

from acp_server import Agent, Limits, MemoryStore, Session
from acp_server.errors import INVALID_PARAMS, INVALID_REQUEST
from tests.session.editor import Editor, editing
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio


def agent() -> Agent:
    agent = Agent("roomy")

    @agent.prompt
    async def prompt(turn: object) -> None: ...

    return agent


def named(**params: Any) -> dict[str, Any]:
    return {"cwd": "/p", "mcpServers": [], **params}


async def refused(editor: Editor, method: str = "session/new", **params: Any) -> tuple[int, Any]:
    error = await editor.refusal(method, named(**params))
    return error["code"], error["data"]


async def test_a_session_more_than_may_be_open_is_refused_until_one_is_closed() -> None:
    async with editing(agent(), Limits(drain=0.05, sessions=2)) as editor:
        first, second = await editor.open(), await editor.open()
        assert await refused(editor) == (INVALID_REQUEST, {"limit": 2})
        # One that is open can be opened anew: that takes no more room than it has.
        await editor.client.result("session/load", named(sessionId=first))
        assert await refused(editor) == (INVALID_REQUEST, {"limit": 2})
        await editor.client.result("session/close", {"sessionId": second})
        await editor.open()
        assert await refused(editor, "session/resume", sessionId=second) == (INVALID_REQUEST, {"limit": 2})
        await editor.client.result("session/delete", {"sessionId": first})
        await editor.client.result("session/resume", named(sessionId=second))


async def test_a_session_that_could_not_be_opened_takes_no_room() -> None:
    picky = agent()

    @picky.session
    async def refuse(session: Session) -> None:
        if session.cwd == "/no":
            raise ValueError

    async with editing(picky, Limits(drain=0.05, sessions=1)) as editor:
        for _ in range(3):
            await editor.refusal("session/new", named(cwd="/no"))
        await editor.open()


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
async def test_a_path_that_is_too_long_is_refused(method: str) -> None:
    async with editing(agent(), Limits(drain=0.05, path=10)) as editor:
        await editor.open("/123456789")
        for params, name in (
            ({"cwd": "/1234567890"}, "cwd"),
            ({"additionalDirectories": ["/p", "/1234567890"]}, "additionalDirectories[1]"),
        ):
            code, data = await refused(editor, method, sessionId="s", **params)
            assert code == INVALID_PARAMS
            assert data["problems"] == [{"path": name, "message": "is longer than 10 characters"}]
        error = await editor.refusal("session/list", {"cwd": "/1234567890"})
        assert error["code"] == INVALID_PARAMS


async def test_a_session_for_which_too_much_is_named_is_refused() -> None:
    server = {"name": "s", "command": "/bin/s", "args": ["x" * 1000], "env": []}
    async with editing(agent(), Limits(drain=0.05, setup=1000)) as editor:
        code, _ = await refused(editor, mcpServers=[server])
        assert code == INVALID_PARAMS
        await editor.open()


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
async def test_what_is_too_much_is_refused_before_it_is_read(method: str) -> None:
    wrong = {"name": "n" * 1000}
    async with editing(agent(), Limits(drain=0.05, setup=1000)) as editor:
        _, data = await refused(editor, method, sessionId="s", cwd="relative", mcpServers=[wrong])
        assert data["problems"] == [
            {"path": "", "message": "the directories, MCP servers and system prompt take more than 1000 bytes"}
        ]


@pytest.mark.parametrize("method", ["session/new", "session/resume"])
async def test_what_is_too_much_is_refused_before_it_is_read_in_version_2(method: str) -> None:
    async with v2.editing(agent(), Limits(drain=0.05, setup=1000)) as editor:
        _, data = await refused(editor, method, sessionId="s", cwd="relative", mcpServers=["n" * 1000])
        assert data["problems"][0]["path"] == ""


async def test_too_much_for_all_sessions_together_is_refused_until_some_are_closed() -> None:
    server = {"name": "s", "command": "/bin/s", "args": ["x" * 1000], "env": []}
    store = MemoryStore()
    roomy = agent()
    roomy.store = store
    async with editing(roomy, Limits(drain=0.05, setups=2500)) as editor:
        first = await editor.open(mcpServers=[server])
        await editor.open(mcpServers=[server])
        assert await refused(editor, mcpServers=[server]) == (INVALID_REQUEST, {"limit": 2500})
        await editor.open()
        await editor.client.result("session/close", {"sessionId": first})
        await editor.open(mcpServers=[server])
