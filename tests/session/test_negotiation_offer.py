"""A client that offers version 2 to an agent of version 1 is known by what it says of itself."""

from typing import Any

import pytest

from acp_server import Agent, Session, Turn
from acp_server.session.negotiation import as_v1
from tests.session.editor import editing

Params = dict[str, Any]
INFO = {"name": "editor", "version": "3"}


@pytest.mark.parametrize(
    ("offered", "known"),
    [
        ({}, {}),
        ({"info": INFO}, {"clientInfo": INFO}),
        ({"info": INFO, "clientInfo": {"name": "old"}}, {"clientInfo": {"name": "old"}}),
        ({"capabilities": {"elicitation": {"form": {}}}}, {"clientCapabilities": {"elicitation": {"form": {}}}}),
        ({"capabilities": {"auth": {"terminal": {}}}}, {"clientCapabilities": {"auth": {"terminal": True}}}),
        ({"capabilities": {"auth": {"terminal": None}}}, {"clientCapabilities": {"auth": {"terminal": None}}}),
        ({"capabilities": {"auth": {"terminal": True}}}, {"clientCapabilities": {"auth": {"terminal": True}}}),
        ({"capabilities": {"auth": 7}, "_meta": {"a": 1}}, {"clientCapabilities": {"auth": 7}}),
        ({"capabilities": {"fs": {}}, "clientCapabilities": {}}, {"clientCapabilities": {}}),
        ({"capabilities": 7}, {}),
    ],
)
def test_an_offer_of_version_2_has_a_form_of_version_1(offered: Params, known: Params) -> None:
    before = repr(offered)
    assert as_v1({"protocolVersion": 2, **offered}) == {"protocolVersion": 2, **offered, **known}
    assert repr(offered) == before


@pytest.mark.anyio
@pytest.mark.parametrize("version", [2, 3, 65535])
async def test_the_agent_answers_1_and_knows_the_client(version: int) -> None:
    agent = Agent("reader", version="1", versions=[1])
    sessions: list[Session] = []
    agent.session(sessions.append)
    agent.terminal_login("login", name="Log in", args=["--login"])

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent, initialize=False) as editor:
        capabilities = {"auth": {"terminal": {}}, "elicitation": {"url": {}}}
        offer = {"protocolVersion": version, "info": INFO, "capabilities": capabilities}
        answer = await editor.client.result("initialize", offer)
        assert answer["protocolVersion"] == 1
        assert [method["type"] for method in answer["authMethods"]] == ["terminal"]
        await editor.open()
        client = sessions[0].client
        assert client.profile.info is not None
        assert (client.profile.info.name, client.capabilities.auth.terminal) == ("editor", True)
        assert client.capabilities.elicitation is not None
        assert client.capabilities.elicitation.url is not None


@pytest.mark.anyio
async def test_info_of_a_client_that_asks_for_version_1_is_an_unknown_field() -> None:
    agent = Agent("reader", version="1")
    sessions: list[Session] = []
    agent.session(sessions.append)

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent, initialize=False) as editor:
        await editor.client.result("initialize", {"protocolVersion": 1, "info": INFO})
        await editor.open()
        assert sessions[0].client.profile.info is None
