"""Modes and config options: what is offered, what can be chosen, and who is told."""

from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, RpcError, Session, SessionClosed, Turn, UsageError, schema
from acp_server.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from tests.session.editor import END_TURN, EVERYTHING, editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

SELECT = schema.SessionConfigSelect(
    id="model",
    name="Model",
    current_value="small",
    options=[
        schema.SessionConfigSelectOption(value="small", name="S"),
        schema.SessionConfigSelectOption(value="large", name="L"),
    ],
)
GROUPED = schema.SessionConfigSelect(
    id="voice",
    name="Voice",
    current_value="alto",
    options=[
        schema.SessionConfigSelectGroup(
            group="high", name="High", options=[schema.SessionConfigSelectOption(value="alto", name="A")]
        ),
        schema.SessionConfigSelectGroup(
            group="low", name="Low", options=[schema.SessionConfigSelectOption(value="bass", name="B")]
        ),
    ],
)
BOOLEAN = schema.SessionConfigBoolean(id="loud", name="Loud", current_value=False)


def settable(store: TestStore | None = None) -> tuple[Agent, list[Session]]:
    agent = Agent("settable", store=store)
    agent.modes(schema.SessionMode(id="ask", name="Ask"), schema.SessionMode(id="code", name="Code"))
    agent.config_options(SELECT, GROUPED, BOOLEAN)
    sessions: list[Session] = []

    @agent.session
    def prepare(session: Session) -> None:
        sessions.append(session)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return f"{turn.session.mode} {turn.session.config('model', None)} {turn.session.config('loud', None)}"

    return agent, sessions


def shown(options: list[dict[str, Any]]) -> dict[str, Any]:
    return {option["id"]: option["currentValue"] for option in options}


async def test_an_agent_without_modes_or_options_has_no_methods_for_them() -> None:
    agent = Agent("plain")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        session = await editor.open()
        for method in ("session/set_mode", "session/set_config_option"):
            assert (await editor.refusal(method, {"sessionId": session}))["code"] == METHOD_NOT_FOUND


async def test_a_session_starts_in_the_first_mode_and_the_client_can_change_it() -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/p", "mcpServers": []})
        assert opened["modes"] == {
            "currentModeId": "ask",
            "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
        }
        session = opened["sessionId"]
        assert await editor.client.result("session/set_mode", {"sessionId": session, "modeId": "code"}) == {}
        assert sessions[0].mode == "code"
        await editor.ask(session)
        assert editor.said() == ["code small False"]
        assert not [u for u in editor.client.updates() if u["sessionUpdate"] == "current_mode_update"]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"modeId": "never offered"}, INVALID_PARAMS),
        ({"modeId": None}, INVALID_PARAMS),
        ({}, INVALID_PARAMS),
        ({"modeId": "code", "sessionId": "nobody"}, RESOURCE_NOT_FOUND),
    ],
)
async def test_a_mode_that_was_not_offered_is_refused(params: dict[str, Any], code: int) -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        session = await editor.open()
        assert (await editor.refusal("session/set_mode", {"sessionId": session, **params}))["code"] == code
        assert sessions[0].mode == "ask"


async def test_an_option_is_set_and_all_options_come_back() -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        session = await editor.open()

        async def choose(id: str, value: Any, **more: Any) -> dict[str, Any]:
            params = {"sessionId": session, "configId": id, "value": value, **more}
            return shown((await editor.client.result("session/set_config_option", params))["configOptions"])

        assert await choose("model", "large") == {"model": "large", "voice": "alto", "loud": False, "mode": "ask"}
        assert await choose("voice", "bass") == {"model": "large", "voice": "bass", "loud": False, "mode": "ask"}
        loud = {"model": "large", "voice": "bass", "loud": True, "mode": "ask"}
        assert await choose("loud", True, type="boolean") == loud
        assert [sessions[0].config(id) for id in ("model", "voice", "loud")] == ["large", "bass", True]
        assert sessions[0].config("other", None) is None
        with pytest.raises(UsageError, match="the session has no config option 'modle'; did you mean 'model'"):
            sessions[0].config("modle")
        # What one session chose is no default for the next.
        opened = await editor.client.result("session/new", {"cwd": "/p", "mcpServers": []})
        assert shown(opened["configOptions"]) == {"model": "small", "voice": "alto", "loud": False, "mode": "ask"}


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"configId": "other", "value": "small"}, "configId"),
        ({"configId": "model", "value": "tiny"}, "value"),
        ({"configId": "voice", "value": "high"}, "value"),
        ({"configId": "model", "value": True, "type": "boolean"}, "value"),
        ({"configId": "loud", "value": "true"}, "value"),
        ({"configId": "loud", "value": 1}, "value"),
        ({"configId": "model"}, "value"),
        ({"value": "small"}, "configId"),
    ],
)
async def test_an_option_or_value_that_was_not_offered_is_refused(params: dict[str, Any], path: str) -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        session = await editor.open()
        refused = await editor.refusal("session/set_config_option", {"sessionId": session, **params})
        assert refused["code"] == INVALID_PARAMS
        assert refused["data"]["problems"][0]["path"].startswith(path)
        assert shown([option.to_wire() for option in sessions[0].settings.offered()]) == {
            "model": "small",
            "voice": "alto",
            "loud": False,
        }


async def test_a_boolean_option_is_a_choice_of_off_and_on_for_clients_that_show_no_booleans() -> None:
    agent, sessions = settable()
    async with editing(agent, capabilities={}) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/p", "mcpServers": []})
        assert shown(opened["configOptions"]) == {"model": "small", "voice": "alto", "loud": "off", "mode": "ask"}
        params = {"sessionId": opened["sessionId"], "configId": "loud", "value": True, "type": "boolean"}
        assert (await editor.refusal("session/set_config_option", params))["code"] == INVALID_PARAMS
        assert sessions[0].config("loud") is False
        changed = await editor.client.result("session/set_config_option", {**params, "value": "on", "type": "select"})
        assert shown(changed["configOptions"])["loud"] == "on"
        assert sessions[0].config("loud") is True
        await sessions[0].set_config("loud", False)
        update = await editor.client.expect("session/update")
        assert shown(update["params"]["update"]["configOptions"])["loud"] == "off"


async def test_a_mode_is_an_option_as_well_and_both_are_in_step() -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/p", "mcpServers": []})
        session = opened["sessionId"]
        option = opened["configOptions"][-1]
        assert (option["category"], [choice["value"] for choice in option["options"]]) == ("mode", ["ask", "code"])
        params = {"sessionId": session, "configId": "mode", "value": "code"}
        changed = await editor.client.result("session/set_config_option", params)
        assert shown(changed["configOptions"])["mode"] == "code"
        assert sessions[0].mode == "code"
        await editor.client.result("session/set_mode", {"sessionId": session, "modeId": "ask"})
        refused = await editor.refusal("session/set_config_option", {**params, "value": "nosuch"})
        assert refused["code"] == INVALID_PARAMS
        first, second = editor.client.updates(session)
        assert first == {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
        assert shown(second["configOptions"])["mode"] == "ask"


@pytest.mark.parametrize("capabilities", [{}, EVERYTHING])
async def test_running_without_asking_is_a_mode_as_well_where_an_agent_has_none(capabilities: dict[str, Any]) -> None:
    agent = Agent("auto")
    sessions: list[Session] = []

    @agent.tool(approval=True, auto_approve=True)
    def act() -> None: ...

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        sessions.append(turn.session)

    async with editing(agent, capabilities=capabilities) as editor:
        opened = await editor.client.result("session/new", {"cwd": "/p", "mcpServers": []})
        session = opened["sessionId"]
        await editor.ask(session)
        assert [mode["id"] for mode in opened["modes"]["availableModes"]] == ["ask", "auto_approve"]
        assert opened["modes"]["currentModeId"] == "ask"
        assert list(shown(opened["configOptions"])) == ["auto_approve"]
        await editor.client.result("session/set_mode", {"sessionId": session, "modeId": "auto_approve"})
        assert sessions[0].config("auto_approve") is True
        assert sessions[0].mode is None
        (told,) = editor.client.updates(session)
        assert shown(told["configOptions"]) == {"auto_approve": True if capabilities else "on"}
        await sessions[0].set_config("auto_approve", False)
        await editor.settled()
        assert editor.client.updates(session)[-1] == {"sessionUpdate": "current_mode_update", "currentModeId": "ask"}


async def test_what_the_agent_changes_itself_the_client_is_told() -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        session = await editor.open()
        (opened,) = sessions
        await opened.set_mode("code")
        await opened.set_config("model", "large")
        await opened.set_title("on it")
        with pytest.raises(ValueError, match="title"):
            await opened.set_title(cast("Any", ["a list"]))
        assert opened.record.title == "on it"
        with pytest.raises(ValueError, match="not one of this session's modes"):
            await opened.set_mode("never offered")
        with pytest.raises(ValueError, match="not one of this session's options"):
            await opened.set_config("other", "x")
        with pytest.raises(ValueError, match="not one of the values"):
            await opened.set_config("model", "tiny")
        await editor.settled()
        in_step, first, second, third = editor.client.updates(session)
        assert shown(in_step["configOptions"])["mode"] == "code"
        assert first == {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
        assert shown(second["configOptions"])["model"] == "large"
        assert (third["sessionUpdate"], third["title"]) == ("session_info_update", "on it")


@pytest.mark.behaviour("B18")
async def test_the_agent_is_asked_before_a_choice_takes_effect_and_can_refuse_it() -> None:
    agent, sessions = settable()
    asked: list[Any] = []
    hang = anyio.Event()

    @agent.set_mode
    async def set_mode(session: Session, mode: str) -> None:
        asked.append((session.mode, mode))
        if hang.is_set():
            await anyio.sleep_forever()
        raise RpcError("not now", code=-31000)

    @agent.set_config_option
    def set_config_option(session: Session, id: str, value: Any) -> None:
        asked.append((session.config(id), value))
        raise RpcError("not now", code=-31000)

    async with editing(agent) as editor:
        session = await editor.open()
        assert (await editor.refusal("session/set_mode", {"sessionId": session, "modeId": "code"}))["code"] == -31000
        params = {"sessionId": session, "configId": "model", "value": "large"}
        assert (await editor.refusal("session/set_config_option", params))["code"] == -31000
        hang.set()
        id = await editor.client.request("session/set_mode", {"sessionId": session, "modeId": "code"})
        await editor.withdraw(id)
        assert await editor.code(id) == REQUEST_CANCELLED
        assert asked[:2] == [("ask", "code"), ("small", "large")]
        assert (sessions[0].mode, sessions[0].config("model")) == ("ask", "small")


@pytest.mark.parametrize("method", ["session/set_mode", "session/set_config_option"])
async def test_a_choice_that_cannot_be_saved_is_not_made(method: str) -> None:
    store = TestStore()
    agent, sessions = settable(store)
    told: list[Any] = []

    @agent.set_mode
    def mode(_session: Session, mode: str) -> None:
        told.append(mode)

    @agent.set_config_option
    def option(_session: Session, _id: str, value: str | bool) -> None:
        told.append(value)

    choice = {"modeId": "code"} if method == "session/set_mode" else {"configId": "model", "value": "large"}
    async with editing(agent) as editor:
        id = await editor.open()
        store.fails.add("save")
        assert (await editor.refusal(method, {"sessionId": id, **choice}))["code"] == INTERNAL_ERROR
        (session,) = sessions
        with pytest.raises(OSError, match="secret"):
            await session.set_mode("code")
        with pytest.raises(OSError, match="secret"):
            await session.set_config("loud", True)
        assert (session.mode, session.config("model"), session.config("loud")) == ("ask", "small", False)
        # The agent's own functions hear of it both ways.
        assert told == (["code", "ask"] if method == "session/set_mode" else ["large", "small"])
        store.fails.clear()
        assert await editor.ask(id) == END_TURN
        assert "ask small False" in editor.said()
    kept = store._records[id]
    assert (kept.mode, kept.config) == (None, {})


async def test_a_choice_that_was_made_anew_meanwhile_is_not_undone() -> None:
    store = TestStore()
    agent, sessions = settable(store)
    async with editing(agent) as editor:
        id = await editor.open()
        store.waits["save"] = hangs = anyio.Event()
        refused = []
        for config, value in (("model", "large"), ("model", "small"), ("voice", "bass")):
            params = {"sessionId": id, "configId": config, "value": value}
            refused.append(await editor.client.request("session/set_config_option", params))
        await editor.settled()
        sessions[0].settings.choose("voice", "alto")
        store.fails.add("save")
        hangs.set()
        for each in refused:
            assert await editor.code(each) == INTERNAL_ERROR
        assert (sessions[0].config("model"), sessions[0].config("voice")) == ("small", "alto")
        store.fails.clear()


@pytest.mark.parametrize("ending", ["cancelled", "fails"])
async def test_the_agent_hears_of_choices_one_after_the_other_and_last_of_the_one_that_stands(ending: str) -> None:
    store = TestStore()
    agent, sessions = settable(store)
    told: list[str] = []

    @agent.set_mode
    async def mode(_session: Session, mode: str) -> None:
        told.append(mode)
        await anyio.lowlevel.checkpoint()

    async with editing(agent) as editor:
        id = await editor.open()
        store.waits["save"] = hangs = anyio.Event()
        first = await editor.client.request("session/set_mode", {"sessionId": id, "modeId": "code"})
        await store.reached.wait()
        second = await editor.client.request("session/set_mode", {"sessionId": id, "modeId": "ask"})
        await editor.settled()
        assert told == ["code"]
        if ending == "cancelled":
            await editor.withdraw(second)
            await editor.settled()
            hangs.set()
            assert await editor.answer(first) == {}
            assert await editor.code(second) == REQUEST_CANCELLED
            assert (told, sessions[0].mode) == (["code"], "code")
        else:
            store.fails.add("save")
            store.waits.clear()
            hangs.set()
            assert await editor.code(first) == INTERNAL_ERROR
            store.fails.clear()
            await editor.client.response(second)
            assert told[:2] == ["code", "ask"]
            assert (told[-1], sessions[0].mode) == ("ask", "ask")


async def test_a_choice_for_a_session_that_is_closed_meanwhile_is_refused() -> None:
    agent, sessions = settable()
    asked, go_on = anyio.Event(), anyio.Event()

    @agent.set_mode
    async def mode(_session: Session, _mode: str) -> None:
        asked.set()
        await go_on.wait()

    async with editing(agent) as editor:
        id = await editor.open()
        choice = await editor.client.request("session/set_mode", {"sessionId": id, "modeId": "code"})
        await asked.wait()
        assert await editor.client.result("session/close", {"sessionId": id}) == {}
        go_on.set()
        assert await editor.code(choice) == RESOURCE_NOT_FOUND
        with pytest.raises(SessionClosed):
            await sessions[0].set_mode("code")


async def test_a_choice_outlives_the_connection_but_not_its_offer() -> None:
    store = TestStore()
    agent, _ = settable(store)
    async with editing(agent) as editor:
        session = await editor.open()
        for method, params in (
            ("session/set_config_option", {"configId": "model", "value": "large"}),
            ("session/set_config_option", {"configId": "voice", "value": "bass"}),
            ("session/set_mode", {"modeId": "code"}),
        ):
            await editor.client.result(method, {"sessionId": session, **params})
            kept = await store.load(session)
            assert kept is not None
        assert (kept.mode, kept.config) == ("code", {"model": "large", "voice": "bass"})
    later = Agent("later", store=store)
    later.modes(schema.SessionMode(id="ask", name="Ask"))
    later.config_options(SELECT, schema.SessionConfigSelect(**{**dict(GROUPED), "options": GROUPED.options[:1]}))

    @later.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(later) as editor:
        loaded = await editor.client.result("session/load", {"sessionId": session, "cwd": "/project", "mcpServers": []})
        assert loaded["modes"]["currentModeId"] == "ask"
        assert shown(loaded["configOptions"]) == {"model": "large", "voice": "alto", "mode": "ask"}
