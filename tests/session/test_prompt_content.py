"""What a prompt may hold."""

from typing import Any

import pytest

from acp_server import Agent, Turn
from acp_server.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND
from tests.session.agents import listener
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio

BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": "a"},
    "resource_link": {"type": "resource_link", "uri": "file:///a", "name": "a"},
    "image": {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    "audio": {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
    "resource": {"type": "resource", "resource": {"uri": "file:///a", "text": "a"}},
}
OFFERS = {"image": "image", "audio": "audio", "resource": "embedded_context"}


@pytest.mark.parametrize("offered", [True, False])
@pytest.mark.parametrize("kind", BLOCKS)
async def test_a_prompt_may_hold_what_the_agent_announced_and_text_and_links_always(kind: str, offered: bool) -> None:
    accepts: Any = [OFFERS[kind]] if offered and kind in OFFERS else []
    agent = Agent("reads", accepts=accepts)
    prompts: list[Any] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        prompts.append(turn.prompt)

    async with editing(agent) as editor:
        announced = (await editor.initialize())["agentCapabilities"].get("promptCapabilities", {})
        session = await editor.open()
        answer = await editor.ask(session, prompt=[BLOCKS["text"], BLOCKS[kind]])
        if kind in OFFERS:
            key = {"resource": "embeddedContext"}.get(kind, kind)
            assert announced == ({key: True} if offered else {})
        if kind not in OFFERS or offered:
            assert answer == END_TURN
            assert [block.to_wire() for block in prompts[0]] == [BLOCKS["text"], BLOCKS[kind]]
        else:
            assert answer["code"] == INVALID_PARAMS
            problem = {"path": "prompt[1]", "message": f"this agent does not take {kind} content"}
            assert answer["data"] == {"problems": [problem]}


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": "go"}, "prompt"),
        ({"prompt": [7]}, "prompt[0]"),
        ({"prompt": [{"type": "text"}]}, "prompt[0].text"),
        ({"prompt": [{"type": "text", "text": 7}]}, "prompt[0].text"),
        ({"prompt": [{"type": "hologram", "text": "a"}]}, "prompt[0]"),
        ({"prompt": [{"text": "a"}]}, "prompt[0]"),
        ({"sessionId": 7}, "sessionId"),
        ({"sessionId": None}, "sessionId"),
    ],
)
async def test_a_malformed_prompt_is_refused_and_says_where(params: dict[str, Any], path: str) -> None:
    agent, seen, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        refused = await editor.ask(session, **params)
        assert refused["code"] == INVALID_PARAMS
        assert refused["data"]["problems"][0]["path"] == path
        assert not seen
        assert await editor.ask(session) == END_TURN


async def test_a_prompt_for_an_unknown_session_is_refused() -> None:
    agent, _, _ = listener()
    async with editing(agent) as editor:
        refused = await editor.ask("nobody")
        assert (refused["code"], refused["data"]) == (RESOURCE_NOT_FOUND, {"sessionId": "nobody"})


async def test_of_a_long_id_that_there_is_not_the_beginning_is_repeated() -> None:
    agent, _, _ = listener()
    async with editing(agent) as editor:
        refused = await editor.ask("n" * 100_000)
        assert refused["data"] == {"sessionId": "n" * 200}
