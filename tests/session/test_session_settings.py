"""Modes and config options that one session offers, and what its agent keeps of them itself."""

from typing import Any

import pytest

from acp_server import Agent, InvalidParams, Session, Turn, UsageError, schema
from acp_server.errors import INVALID_PARAMS
from acp_server.session.settings import Option
from tests.session.editor import END_TURN, editing
from tests.session.test_settings import BOOLEAN, GROUPED, SELECT, settable, shown
from tests.session.v2.editor import editing as editing_v2

pytestmark = pytest.mark.anyio


async def test_a_session_handler_can_change_what_its_own_session_offers() -> None:
    agent, _ = settable()

    @agent.session
    def prepare(session: Session) -> None:
        session.settings.modes.append(schema.SessionMode(id="own", name=session.cwd))
        session.settings.options[:] = [SELECT]

    async with editing(agent) as editor:
        for cwd in ("/a", "/b"):
            opened = await editor.client.result("session/new", {"cwd": cwd, "mcpServers": []})
            assert [mode["name"] for mode in opened["modes"]["availableModes"]] == ["Ask", "Code", cwd]
            assert list(shown(opened["configOptions"])) == ["model", "mode"]
            params = {"sessionId": opened["sessionId"], "modeId": "own"}
            assert await editor.client.result("session/set_mode", params) == {}
            assert await editor.ask(opened["sessionId"]) == END_TURN


async def test_a_session_offers_modes_of_its_own_and_says_which_is_the_current_one() -> None:
    agent, _ = settable()
    sessions: list[Session] = []

    @agent.session
    async def prepare(session: Session) -> None:
        await session.set_modes(*(schema.SessionMode(id=id, name=id) for id in ("plan", session.cwd)), current="/a")
        sessions.append(session)

    async with editing(agent) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/a", "mcpServers": []})
        assert opened["modes"]["currentModeId"] == "/a"
        assert [mode["id"] for mode in opened["modes"]["availableModes"]] == ["plan", "/a"]
        (session,) = sessions
        with pytest.raises(ValueError, match="is not one of this session's modes"):
            await session.set_modes(schema.SessionMode(id="x", name="x"), current="y")
        with pytest.raises(UsageError, match="two modes with the id 'x'"):
            await session.set_modes(*[schema.SessionMode(id="x", name="x")] * 2)
        await session.set_modes(schema.SessionMode(id="last", name="Last"))
        told = await editor.client.expect(lambda message: "current_mode_update" in str(message))
        assert told["params"]["update"]["currentModeId"] == "last"


async def test_options_whose_values_the_agent_keeps_are_told_as_it_says() -> None:
    agent, sessions = settable()
    model = "large"

    def offered() -> schema.SessionConfigSelect:
        return SELECT.model_copy(update={"current_value": model})

    @agent.set_mode
    async def enter(session: Session, mode_id: str) -> None:
        nonlocal model
        model = "small"
        await session.set_options(offered(), keep=False)

    async with editing(agent) as editor:
        id = await editor.open()
        params = {"sessionId": id, "configId": "model", "value": "large"}
        await editor.client.result("session/set_config_option", params)
        await sessions[0].set_options(offered())
        assert sessions[0].config("model") == "large"
        await editor.settled()
        before = len(editor.client.received)
        await editor.client.result("session/set_mode", {"sessionId": id, "modeId": "code"})
        # The answer to a mode has no options.
        told = [m["params"]["update"] for m in editor.client.received[before:] if "config_option_update" in str(m)]
        assert [shown(update["configOptions"]) for update in told] == [{"model": "small", "mode": "code"}]
        kept = await agent.store.load(id)
        assert kept is not None
        assert kept.config["model"] == "small"


@pytest.mark.parametrize("side", [editing, editing_v2], ids=["v1", "v2"])
@pytest.mark.parametrize("unlisted", [False, True])
async def test_an_option_or_value_that_is_not_listed_is_refused_or_the_agents_matter(side: Any, unlisted: bool) -> None:
    agent, _ = settable()
    taken: list[tuple[str, str | bool]] = []

    @agent.set_config_option(unlisted=unlisted)
    async def chosen(session: Session, id: str, value: str | bool) -> None:
        if id == "max_turns":
            taken.append((id, value))
        elif value == "huge":
            huge = schema.SessionConfigSelectOption(value="huge", name="Huge")
            options: Any = [*SELECT.options, huge]
            await session.set_options(SELECT.model_copy(update={"options": options}))
        else:
            raise InvalidParams(f"No {id}")

    async with side(agent) as editor:
        id = await editor.open()
        codes: list[int] = []
        for config_id, value in [("max_turns", "7"), ("model", "huge"), ("model", "tiny"), ("nothing", "x")]:
            params = {"sessionId": id, "configId": config_id, "value": value, "type": "id"}
            answer = await editor.answer(await editor.client.request("session/set_config_option", params))
            codes.append(answer.get("code", 0))
        assert codes == ([0, 0, -32602, -32602] if unlisted else [-32602] * 4)
        assert taken == ([("max_turns", "7")] if unlisted else [])
        session = agent.find_session(editor.connection, id)
        assert session.config("model") == ("huge" if unlisted else "small")
        assert session.config("max_turns", None) is None
        assert "max_turns" not in session.record.config


def test_options_are_typed_as_what_can_be_offered() -> None:
    options: list[Option] = [SELECT, GROUPED, BOOLEAN]
    assert [option.type for option in options] == ["select", "select", "boolean"]


@pytest.mark.parametrize("of_session", [False, True])
async def test_modes_need_not_be_an_option_as_well(of_session: bool) -> None:
    agent = Agent("modal")
    modes = [schema.SessionMode(id=id, name=id) for id in ("ask", "code")]
    agent.modes(*modes, as_option=of_session)
    sessions: list[Session] = []

    @agent.session
    async def prepare(session: Session) -> None:
        sessions.append(session)
        if of_session:
            await session.set_modes(*modes, as_option=False)

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/a", "mcpServers": []})
        assert opened["modes"]["currentModeId"] == "ask"
        assert "configOptions" not in opened
        id = opened["sessionId"]
        chosen = {"sessionId": id, "configId": "mode", "value": "code"}
        refused = await editor.refusal("session/set_config_option", chosen)
        assert refused["code"] == INVALID_PARAMS
        await editor.client.result("session/set_mode", {"sessionId": id, "modeId": "code"})
        await sessions[0].set_mode("ask")
        await editor.settled()
        assert editor.client.updates(id) == [{"sessionUpdate": "current_mode_update", "currentModeId": "ask"}]
    async with editing_v2(agent) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/a"})
        assert [option["configId"] for option in opened["configOptions"]] == ["mode"]


async def test_an_option_of_the_authors_for_the_mode_takes_the_place_of_that_of_the_runtime() -> None:
    agent = Agent("modal")
    agent.modes(*(schema.SessionMode(id=id, name=id) for id in ("ask", "code")))
    agent.config_options(SELECT.model_copy(update={"id": "agent", "category": "mode"}))

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/a", "mcpServers": []})
        assert [option["id"] for option in opened["configOptions"]] == ["agent"]
        id = opened["sessionId"]
        chosen = {"sessionId": id, "configId": "mode", "value": "code"}
        assert (await editor.refusal("session/set_config_option", chosen))["code"] == INVALID_PARAMS
        assert await editor.client.result("session/set_mode", {"sessionId": id, "modeId": "code"}) == {}
    async with editing_v2(agent) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/a"})
        assert [option["configId"] for option in opened["configOptions"]] == ["agent"]


async def test_a_choice_of_what_is_chosen_already_changes_nothing_and_is_not_told() -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        id = await editor.open()
        await sessions[0].set_mode("ask")
        await sessions[0].set_config("model", "small")
        await sessions[0].set_modes(*sessions[0].settings.modes, current="ask")
        await editor.client.result("session/set_mode", {"sessionId": id, "modeId": "ask"})
        chosen = {"sessionId": id, "configId": "mode", "value": "ask"}
        told = await editor.client.result("session/set_config_option", chosen)
        assert shown(told["configOptions"])["mode"] == "ask"
        await editor.settled()
        assert editor.client.updates(id) == []
