"""The settings of a session before it is opened, and the values that it begins with (unstable: session options)."""

from typing import Any

import pytest

from acp_server import Agent, MemoryStore, Session, Turn, schema
from acp_server.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, InvalidParams
from tests.session.editor import Editor, editing
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio

MODEL = schema.SessionConfigSelect.of("model", ["small", "large"], category="model")
LOUD = schema.SessionConfigBoolean(id="loud", name="Loud", current_value=False)


def configurable(unstable: Any = ("options", "fork"), *, as_option: bool = True) -> tuple[Agent, list[tuple[str, Any]]]:
    """An agent with a model, a switch and two modes, and what its handlers were called with."""
    agent = Agent("flexible", store=MemoryStore(), unstable=unstable)
    agent.modes(*(schema.SessionMode(id=id, name=id) for id in ("ask", "plan")), as_option=as_option)
    agent.config_options(MODEL, LOUD)
    chosen: list[tuple[str, Any]] = []

    @agent.set_config_option
    async def set_config_option(session: Session, config_id: str, value: str | bool) -> None:
        if value == "large" and session.cwd == "/small":
            raise InvalidParams("no large model here")
        chosen.append((config_id, value))

    @agent.set_mode
    async def set_mode(session: Session, mode_id: str) -> None:
        chosen.append(("mode", mode_id))

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return f"{turn.session.config('model', '')} {turn.session.mode}"

    return agent, chosen


def values(answer: dict[str, Any]) -> dict[str, Any]:
    return {option.get("id") or option["configId"]: option["currentValue"] for option in answer["configOptions"]}


def initial(version: int, **chosen: Any) -> dict[str, Any]:
    def entry(config_id: str, value: Any) -> dict[str, Any]:
        kind = "boolean" if isinstance(value, bool) else "id" if version == 2 else None
        return {"configId": config_id, "value": value, **({"type": kind} if kind else {})}

    return {"configOptions": [entry(*item) for item in chosen.items()]}


def open_editor(agent: Agent, version: int) -> Any:
    return editing(agent) if version == 1 else v2.editing(agent)


NEW = {"cwd": "/project", "mcpServers": []}


@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_begins_with_the_values_of_the_client_and_the_handlers_are_called(version: int) -> None:
    agent, chosen = configurable()
    async with open_editor(agent, version) as editor:
        wanted = initial(version, model="large", loud=True, mode="plan")
        answer = await editor.client.result("session/new", {**NEW, **wanted})
        assert values(answer) == {"model": "large", "loud": True, "mode": "plan"}
        assert chosen == [("model", "large"), ("loud", True), ("mode", "plan")]
        await editor.ask(answer["sessionId"])
        assert "".join(editor.said()) == "large plan"


@pytest.mark.parametrize("version", [1, 2])
async def test_what_the_session_does_not_offer_is_ignored(version: int) -> None:
    agent, chosen = configurable()
    async with open_editor(agent, version) as editor:
        wanted = initial(version, model="huge", loud="loud", mode="code", other="x", auto_approve=True)
        answer = await editor.client.result("session/new", {**NEW, **wanted})
        assert values(answer) == {"model": "small", "loud": False, "mode": "ask"}
        refused = await editor.client.result("session/new", {**NEW, "cwd": "/small", **initial(version, model="large")})
        assert values(refused)["model"] == "small"
        assert chosen == []


@pytest.mark.parametrize("version", [1, 2])
async def test_a_kind_of_value_that_is_not_known_is_refused_and_nothing_is_opened(version: int) -> None:
    agent, _ = configurable()
    async with open_editor(agent, version) as editor:
        entry = {"configId": "model", "type": "range", "value": [1, 2]}
        error = await editor.refusal("session/new", {**NEW, "configOptions": [entry]})
        assert error["code"] == INVALID_PARAMS
        assert (await editor.client.result("session/list", {}))["sessions"] == []


@pytest.mark.parametrize("method", ["load", "resume", "fork"])
async def test_values_replace_the_stored_ones_when_a_session_is_opened_again(method: str) -> None:
    agent, _ = configurable()
    async with editing(agent) as editor:
        session = await editor.open(**initial(1, model="large", mode="plan"))
        await editor.ask(session)
        params = {**NEW, "sessionId": session}
        assert values(await editor.client.result(f"session/{method}", params)) | {"loud": 0} == {
            "model": "large",
            "loud": 0,
            "mode": "plan",
        }
        answer = await editor.client.result(f"session/{method}", {**params, **initial(1, model="small", loud=True)})
        assert values(answer) | {"loud": 1} == {"model": "small", "loud": 1, "mode": "plan"}


async def test_an_agent_that_does_not_name_the_feature_neither_announces_nor_has_it() -> None:
    agent, chosen = configurable(unstable=())
    async with editing(agent, initialize=False) as editor:
        announced = (await editor.initialize())["agentCapabilities"]["sessionCapabilities"]
        assert "options" not in announced
        answer = await editor.client.result("session/new", {**NEW, **initial(1, model="large")})
        assert values(answer)["model"] == "small"
        assert (await editor.refusal("session/options", {"cwd": "/project"}))["code"] == METHOD_NOT_FOUND
        assert chosen == []


async def test_a_mode_that_is_not_shown_as_an_option_is_not_chosen_as_one() -> None:
    agent, chosen = configurable(as_option=False)
    async with editing(agent) as editor:
        answer = await editor.client.result("session/new", {**NEW, **initial(1, mode="plan")})
        assert answer["modes"]["currentModeId"] == "ask"
        assert chosen == []
    async with v2.editing(agent) as editor:
        answer = await editor.client.result("session/new", {**NEW, **initial(2, mode="plan")})
        assert values(answer)["mode"] == "plan"


async def test_the_options_of_a_new_session_are_told_and_nothing_is_opened() -> None:
    agent, _ = configurable()
    opened: list[str] = []

    @agent.session
    async def prepare(session: Session) -> None:
        opened.append(session.id)

    async with editing(agent, initialize=False) as editor:
        capabilities = (await editor.initialize())["agentCapabilities"]["sessionCapabilities"]
        assert capabilities["options"] == {}
        answer = await editor.client.result("session/options", {"cwd": "/project"})
        assert answer["modes"]["currentModeId"] == "ask"
        assert values(answer)["model"] == "small"
        assert "sessionId" not in answer
        assert (await editor.client.result("session/list", {}))["sessions"] == []
        assert opened == []
        assert editor.client.updates() == []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_open", [True, False])
async def test_the_options_of_a_stored_session_are_its_own(version: int, is_open: bool) -> None:
    agent, _ = configurable()
    async with open_editor(agent, version) as editor:
        session = await editor.open(**initial(version, model="large", mode="plan"))
        await editor.ask(session)
        if not is_open:
            await editor.client.result("session/close", {"sessionId": session})
        answer = await editor.client.result("session/options", {"cwd": "/project", "sessionId": session})
        assert values(answer) | {"loud": 0} == {"model": "large", "loud": 0, "mode": "plan"}
        if version == 2:
            assert answer["availableCommands"] == []
        unknown = {"cwd": "/project", "sessionId": "none"}
        assert (await editor.refusal("session/options", unknown))["code"] == RESOURCE_NOT_FOUND
        assert (await editor.refusal("session/options", {"cwd": "relative"}))["code"] == INVALID_PARAMS


async def _set_model(editor: Editor, session: str, model: Any) -> Any:
    return await editor.answer(await _send(editor, {"sessionId": session, "modelId": model}))


async def _send(editor: Editor, params: dict[str, Any]) -> Any:
    message = editor.client.new_request("session/set_model", params)
    await editor.client.send(message)
    return message["id"]


async def test_the_model_of_an_old_client_is_the_option_of_that_category() -> None:
    agent, chosen = configurable(unstable=())
    async with editing(agent) as editor:
        session = await editor.open()
        assert await _set_model(editor, session, "large") == {}
        assert chosen == [("model", "large")]
        [update] = [each for each in editor.client.updates() if each["sessionUpdate"] == "config_option_update"]
        assert values(update)["model"] == "large"
        assert await _set_model(editor, session, "large") == {}
        assert len(editor.client.updates()) == 1
        for model in ("huge", None, True):
            assert (await _set_model(editor, session, model))["code"] == INVALID_PARAMS
        assert (await _set_model(editor, "none", "large"))["code"] == RESOURCE_NOT_FOUND


async def test_an_agent_without_a_choice_of_models_refuses_the_model_of_an_old_client() -> None:
    agent = Agent("fixed")
    agent.config_options(LOUD)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return "done"

    async with editing(agent) as editor:
        error = await _set_model(editor, await editor.open(), "large")
        assert error["code"] == INVALID_PARAMS
        assert "no choice of models" in str(error)
