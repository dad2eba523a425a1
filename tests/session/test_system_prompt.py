"""The client's instructions for a session: taken, given to the handlers, or refused (ACP, Client System Prompt)."""

from typing import Any, Literal

import pytest

from acp_server import Agent, Turn
from acp_server.errors import INVALID_PARAMS
from tests.session.editor import editing
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio

TEXT = {"type": "text", "text": "Answer in verse."}


def agent(takes: Literal["append", "override"] | None) -> Agent:
    agent = Agent("obedient", system_prompt=takes, unstable={"fork"})

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return turn.session.instructions("Be brief.")

    return agent


def instructions(mode: str = "append", *blocks: Any) -> dict[str, Any]:
    return {"systemPrompt": {"mode": mode, "content": list(blocks or (TEXT,))}}


async def test_the_modes_that_are_taken_are_announced() -> None:
    forms: list[tuple[Any, Any]] = [(None, None), ("append", {}), ("override", {"mode": {"override": {}}})]
    for takes, announced in forms:
        async with editing(agent(takes), initialize=False) as editor:
            capabilities = (await editor.initialize())["agentCapabilities"]["sessionCapabilities"]
            assert capabilities.get("systemPrompt") == announced


@pytest.mark.parametrize(
    ("takes", "params", "told"),
    [
        ("append", {}, "Be brief."),
        ("append", {"systemPrompt": None}, "Be brief."),
        ("append", instructions(), "Be brief.\n\nAnswer in verse."),
        ("append", instructions("append", TEXT, TEXT), "Be brief.\n\nAnswer in verse.\n\nAnswer in verse."),
        ("override", instructions("override"), "Answer in verse."),
        (None, {}, "Be brief."),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
async def test_handlers_have_the_instructions_of_the_client_beside_or_instead_of_their_own(
    takes: Any, params: dict[str, Any], told: str, version: int
) -> None:
    async with (editing if version == 1 else v2.editing)(agent(takes)) as editor:
        session = await editor.open(**params)
        await editor.ask(session)
        assert "".join(editor.said(session)) == told


@pytest.mark.parametrize("method", ["load", "resume", "fork"])
async def test_they_may_be_others_when_a_session_is_taken_up(method: str) -> None:
    async with editing(agent("override")) as editor:
        session = await editor.open(**instructions())
        named = {"sessionId": session, "cwd": "/project", "mcpServers": []}
        answer = await editor.client.result(f"session/{method}", {**named, **instructions("override")})
        session = answer.get("sessionId", session)
        await editor.ask(session)
        assert "".join(editor.said(session)) == "Answer in verse."


@pytest.mark.parametrize(
    ("takes", "params", "path"),
    [
        (None, instructions(), "systemPrompt"),
        ("append", instructions("override"), "systemPrompt.mode"),
        ("override", instructions("_own"), "systemPrompt.mode"),
        ("append", {"systemPrompt": {"mode": "append", "content": []}}, "systemPrompt.content"),
        ("append", instructions("append", {"type": "resource_link", "uri": "a", "name": "a"}), "systemPrompt.content"),
        ("append", {"systemPrompt": {"mode": "append"}}, "systemPrompt.content"),
        ("append", {"systemPrompt": "be kind"}, "systemPrompt"),
    ],
)
@pytest.mark.parametrize("method", ["new", "load", "resume", "fork"])
async def test_what_the_agent_cannot_apply_is_an_error_and_leaves_the_session_as_it_was(
    takes: Any, params: dict[str, Any], path: str, method: str
) -> None:
    async with editing(agent(takes)) as editor:
        session = await editor.open()
        error = await editor.refusal(
            f"session/{method}", {"sessionId": session, "cwd": "/project", "mcpServers": [], **params}
        )
        assert error["code"] == INVALID_PARAMS
        assert error["data"]["problems"][0]["path"] == path
        await editor.ask(session)
        assert "".join(editor.said(session)) == "Be brief."
