"""What clients do with sessions without opening them: titles, archives, and whether they are open."""

from typing import Any

import pytest

from acp_server import Agent, MemoryStore, Turn
from acp_server.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from tests.session.editor import Editor, editing
from tests.session.v2 import editor as v2
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

ALL = ("fork", "title", "archive", "status")


def agent(store: Any = None, unstable: Any = ALL) -> Agent:
    agent = Agent("orderly", store=store or MemoryStore(), unstable=unstable)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        if turn.text.startswith("title "):
            await turn.session.set_title(turn.text.removeprefix("title "))
        return "done"

    return agent


async def listed(editor: Editor, **params: Any) -> dict[str, Any]:
    answer = await editor.client.result("session/list", params)
    return {info["sessionId"]: info for info in answer["sessions"]}


async def test_the_features_are_announced_and_served_by_agents_that_name_them_alone() -> None:
    capabilities = {name: {} for name in ALL}
    methods = ("fork", "set_title", "archive", "unarchive", "status")
    async with editing(agent(), initialize=False) as editor:
        announced = (await editor.initialize())["agentCapabilities"]["sessionCapabilities"]
        assert capabilities.items() <= announced.items()
    async with editing(agent(unstable=()), initialize=False) as editor:
        announced = (await editor.initialize())["agentCapabilities"]["sessionCapabilities"]
        assert not announced.keys() & {*ALL}
        for name in methods:
            error = await editor.refusal(f"session/{name}", {"sessionId": "s", "cwd": "/p", "title": "t"})
            assert error["code"] == METHOD_NOT_FOUND
    async with v2.editing(agent()) as editor:
        session = await editor.open()
        assert await editor.client.result("session/status", {"sessionId": session}) == {"status": "open"}


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_title_of_the_users_is_stored_as_it_is_told_and_replaced_by_none_of_the_agents(is_open: bool) -> None:
    async with editing(agent(TestStore())) as editor:
        session = await editor.open()
        await editor.ask(session, "title Mine")
        if not is_open:
            await editor.client.result("session/close", {"sessionId": session})
        answer = await editor.client.result("session/set_title", {"sessionId": session, "title": "  Parser \n"})
        assert answer == {"title": "Parser"}
        assert (await listed(editor))[session]["title"] == "Parser"
        if not is_open:
            await editor.client.result("session/resume", {"sessionId": session, "cwd": "/project", "mcpServers": []})
        await editor.ask(session, "title Other")
        assert (await listed(editor))[session]["title"] == "Parser"


@pytest.mark.parametrize("title", ["", " \n", "x" * 1001, 5])
async def test_what_is_no_title_is_refused(title: Any) -> None:
    async with editing(agent()) as editor:
        session = await editor.open()
        error = await editor.refusal("session/set_title", {"sessionId": session, "title": title})
        assert error["code"] == INVALID_PARAMS


async def test_an_unknown_session_is_not_found() -> None:
    async with editing(agent()) as editor:
        for name in ("set_title", "archive", "unarchive", "status"):
            error = await editor.refusal(f"session/{name}", {"sessionId": "sess_none", "title": "t"})
            assert (error["code"], error["data"]) == (RESOURCE_NOT_FOUND, {"sessionId": "sess_none"})


async def test_an_archived_session_is_closed_and_listed_only_if_that_is_asked_for() -> None:
    async with editing(agent(TestStore())) as editor:
        away, kept = await editor.open(), await editor.open()
        for session in (away, kept):
            await editor.ask(session)
        for _ in range(2):
            assert await editor.client.result("session/archive", {"sessionId": away}) == {}
        error = await editor.refusal("session/prompt", {"sessionId": away, "prompt": []})
        assert error["code"] == RESOURCE_NOT_FOUND
        assert {id: info["archived"] for id, info in (await listed(editor)).items()} == {kept: False}
        assert (await listed(editor, archived="only")).keys() == {away}
        found = await listed(editor, archived="include", cwd="/project")
        assert {id: info["archived"] for id, info in found.items()} == {away: True, kept: False}
        for _ in range(2):
            assert await editor.client.result("session/unarchive", {"sessionId": away}) == {}
        assert (await listed(editor)).keys() == {away, kept}
        assert await editor.client.result("session/status", {"sessionId": away}) == {"status": "saved"}
        error = await editor.refusal("session/list", {"archived": "some"})
        assert error["code"] == INVALID_PARAMS


async def test_archiving_cancels_what_the_session_does() -> None:
    busy = Agent("busy", unstable={"archive"})

    @busy.prompt
    async def prompt(turn: Turn) -> None:
        await turn.client.read_text_file("/a")

    async with editing(busy) as editor:
        session = await editor.open()
        editor.client.leave_unanswered("fs/read_text_file")
        running = await editor.prompt(session)
        await editor.client.expect_request("fs/read_text_file")
        assert await editor.client.result("session/archive", {"sessionId": session}) == {}
        assert await editor.answer(running) == {"stopReason": "cancelled"}


async def test_a_session_is_open_for_all_connections_of_the_agent() -> None:
    one = agent()
    async with editing(one) as here, editing(one) as there:
        session = await here.open()
        assert await there.client.result("session/status", {"sessionId": session}) == {"status": "open"}
        await here.client.result("session/close", {"sessionId": session})
        assert await there.client.result("session/status", {"sessionId": session}) == {"status": "saved"}
