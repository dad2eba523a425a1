"""Forks, titles, archives and system prompts, as programs that use agents ask for them."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from acp_server import Agent, Turn
from acp_server.errors import CapabilityMissing
from acp_server.schema import SessionConfigBoolean, SessionConfigOption, SessionConfigSelect, SystemPrompt, TextContent
from acp_server.testing import talk

pytestmark = pytest.mark.anyio

VERSIONS = pytest.mark.parametrize("version", [1, 2])
ORDER = SystemPrompt(mode="override", content=[TextContent(text="Be kind.")])


def agent(*, plain: bool = False) -> Agent:
    unstable = () if plain else ("fork", "title", "archive", "status")
    agent = Agent("orderly", unstable=unstable, system_prompt=None if plain else "override")

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return " ".join([turn.session.instructions("Mine."), *(message.text for message in turn.context())])

    return agent


@VERSIONS
async def test_a_fork_is_a_session_of_its_own_with_what_was_said(version: Literal[1, 2]) -> None:
    async with talk(agent(), version=version) as session:
        await session.ask("a")
        fork = await session.agent.fork_session(session.id, "/project", system_prompt=ORDER)
        assert fork.id != session.id
        assert await fork.ask("b") == "Be kind. a Mine. a b"
        assert await session.ask("c") == "Mine. a Mine. a c"


@VERSIONS
async def test_sessions_are_named_put_away_and_taken_out_again(version: Literal[1, 2]) -> None:
    async with talk(agent(), version=version) as session:
        client = session.agent
        await session.ask("a")
        assert await client.set_title(session.id, " Parser ") == "Parser"
        assert await client.session_status(session.id) == "open"
        await client.archive_session(session.id)
        assert session.id not in client.sessions
        assert not (await client.list_sessions()).sessions
        [info] = (await client.list_sessions(archived="only")).sessions
        assert (info.session_id, info.title, info.archived) == (session.id, "Parser", True)
        await client.unarchive_session(session.id)
        assert [info.session_id for info in (await client.list_sessions()).sessions] == [session.id]
        assert await client.session_status(session.id) == "saved"


@VERSIONS
async def test_what_an_agent_does_not_announce_is_not_asked_of_it(version: Literal[1, 2]) -> None:
    async with talk(agent(plain=True), version=version) as session:
        client = session.agent
        for ask in (
            lambda: client.fork_session(session.id, "/project"),
            lambda: client.set_title(session.id, "x"),
            lambda: client.archive_session(session.id),
            lambda: client.unarchive_session(session.id),
            lambda: client.session_status(session.id),
            lambda: client.list_sessions(archived="include"),
            lambda: client.new_session("/project", system_prompt=ORDER),
            lambda: client.new_session("/project", config={"model": "large"}),
            lambda: client.session_options("/project"),
        ):
            with pytest.raises(CapabilityMissing):
                await ask()


@VERSIONS
async def test_settings_are_asked_for_and_chosen_before_a_session_is_opened(version: Literal[1, 2]) -> None:
    flexible = Agent("flexible", unstable={"options"})
    flexible.config_options(
        SessionConfigSelect.of("model", ["small", "large"]),
        SessionConfigBoolean(id="loud", name="Loud", current_value=False),
    )

    @flexible.prompt
    async def prompt(turn: Turn) -> str:
        return f"{turn.session.config('model', '')} {turn.session.config('loud', '')}"

    def values(options: Sequence[SessionConfigOption]) -> list[Any]:
        return [getattr(option, "current_value", None) for option in options]

    async with talk(flexible, version=version) as session:
        client = session.agent
        offered = await client.session_options("/project")
        # A client of version 1 that does not announce switches gets a choice of two in place of one.
        off, on = (False, True) if version == 2 else ("off", "on")
        assert values(offered.config_options or []) == ["small", off]
        chosen = await client.new_session("/project", config={"model": "large", "loud": on, "other": "x"})
        assert values(chosen.config_options) == ["large", on]
        assert await chosen.ask("a") == "large True"
        own = await client.session_options("/project", chosen.id)
        assert values(own.config_options or []) == ["large", on]


@VERSIONS
async def test_a_client_has_the_tokens_of_a_turn(version: Literal[1, 2]) -> None:
    thrifty = Agent("thrifty", unstable={"end_turn_usage"})

    @thrifty.prompt
    async def prompt(turn: Turn) -> None:
        turn.add_usage(input_tokens=3, output_tokens=1, thought_tokens=1)

    async with talk(thrifty, version=version) as session:
        result = await session.run("a")
        assert result.usage is not None
        assert (result.usage.total_tokens, result.usage.thought_tokens) == (4, 1)
