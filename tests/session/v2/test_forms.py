"""What authors write in the form of version 1, in the form of version 2."""

from typing import Any

import pytest

from acp_server import Agent, Session, Turn
from acp_server.errors import INVALID_PARAMS
from acp_server.schema import (
    AvailableCommand,
    PlanEntry,
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    UnstructuredCommandInput,
    from_wire,
    v2,
)
from acp_server.session.v2 import forms
from tests.session.v2.editor import Editor, editing

Wire = dict[str, Any]


def fits(update: Wire) -> Wire:
    """The update, which version 2 has as it is."""
    read = from_wire(v2.SessionUpdate, update)
    assert not isinstance(read, v2.UnknownSessionUpdate)
    assert read.to_wire() == update
    return update


@pytest.mark.parametrize("kind", ["tool_call", "tool_call_update"])
def test_both_updates_of_a_call_are_one_in_version_2(kind: str) -> None:
    given = {"sessionUpdate": kind, "toolCallId": "c", "title": "Do", "status": "pending"}
    assert fits(forms.tool_call(given)) == {**given, "sessionUpdate": "tool_call_update"}


def test_a_call_that_was_cancelled_has_a_status_of_its_own() -> None:
    ended = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}
    told = fits(forms.tool_call({**ended, "_meta": {"outcome": "cancelled", "mine": 1}}))
    assert (told["status"], told["_meta"]) == ("cancelled", {"mine": 1})
    assert "_meta" not in forms.tool_call({**ended, "_meta": {"outcome": "cancelled"}})
    # What the user has declined has failed.
    assert forms.tool_call({**ended, "_meta": {"outcome": "rejected"}})["status"] == "failed"


def test_lines_are_counted_from_one() -> None:
    places = [{"path": "/a", "line": 0}, {"path": "/b", "line": 3}, {"path": "/c"}]
    told = forms.tool_call({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "locations": places})
    assert fits(told)["locations"] == [{"path": "/a"}, {"path": "/b", "line": 3}, {"path": "/c"}]


def test_what_is_given_is_not_changed() -> None:
    content = [{"type": "diff", "path": "/f", "oldText": None, "newText": "x"}]
    given = {"sessionUpdate": "tool_call", "toolCallId": "c", "content": content, "_meta": {"outcome": "cancelled"}}
    before = str(given)
    fits(forms.tool_call(given))
    assert str(given) == before


def test_a_diff_that_is_one_of_version_2_stays_as_it_is() -> None:
    piece = {"type": "diff", "changes": [{"operation": "delete", "path": "/f"}]}
    assert forms.tool_content(piece) is piece


def test_the_plan_of_a_session_has_an_id() -> None:
    entry = PlanEntry(content="one", priority="high", status="pending").to_wire()
    told = fits(forms.plan({"sessionUpdate": "plan", "entries": [entry], "_meta": {"k": 1}}))
    assert told["plan"] == {"type": "items", "planId": forms.PLAN, "entries": [entry]}
    assert told["_meta"] == {"k": 1}


def test_commands_and_their_inputs_say_their_types() -> None:
    commands = [
        AvailableCommand(name="web", description="d", input=UnstructuredCommandInput(hint="what")).to_wire(),
        AvailableCommand(name="test", description="d").to_wire(),
    ]
    told = fits(forms.commands({"sessionUpdate": "available_commands_update", "availableCommands": commands}))
    first, second = told["availableCommands"]
    assert (first["type"], first["input"]) == ("command", {"type": "text", "hint": "what"})
    assert "input" not in second


# -- what the user can set


def settable() -> tuple[Agent, list[Session]]:
    agent = Agent("settable")
    sessions: list[Session] = []
    agent.modes(SessionMode(id="ask", name="Ask", description="Asks"), SessionMode(id="do", name="Do"))
    choices = [SessionConfigSelectOption(value="s", name="S"), SessionConfigSelectOption(value="l", name="L")]
    groups = [SessionConfigSelectGroup(group="g", name="G", options=choices)]
    agent.config_options(
        SessionConfigSelect(id="model", name="Model", current_value="s", options=choices),
        SessionConfigSelect(id="mode", name="Another", current_value="l", options=groups),
        SessionConfigBoolean(id="fast", name="Fast", current_value=False),
    )
    agent.session(sessions.append)

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    return agent, sessions


def values(options: list[Wire]) -> dict[str, Any]:
    return {option["configId"]: option["currentValue"] for option in options}


async def choose(editor: Editor, session: str, id: str, value: Any, kind: str = "id") -> Any:
    params = {"sessionId": session, "configId": id, "type": kind, "value": value}
    return await editor.client.ask("session/set_config_option", params)


@pytest.mark.anyio
async def test_the_mode_is_an_option_whose_id_no_other_has() -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        made = await editor.client.result("session/new", {"cwd": "/p"})
        options = made["configOptions"]
        assert values(options) == {"_mode": "ask", "model": "s", "mode": "l", "fast": False}
        assert options[0]["category"] == "mode"
        assert [choice["value"] for choice in options[0]["options"]] == ["ask", "do"]
        assert options[0]["options"][0]["description"] == "Asks"
        assert options[2]["options"][0]["groupId"] == "g"
        fits({"sessionUpdate": "config_option_update", "configOptions": options})
        session = made["sessionId"]
        answer = await choose(editor, session, "_mode", "do")
        assert values(answer["result"]["configOptions"])["_mode"] == "do"
        assert sessions[0].mode == "do"
        await choose(editor, session, "mode", "s")
        assert (sessions[0].config("mode"), sessions[0].mode) == ("s", "do")
        answer = await choose(editor, session, "fast", True, "boolean")
        assert values(answer["result"]["configOptions"])["fast"] is True


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("id", "value", "kind"),
    [
        ("_mode", "never", "id"),
        ("_mode", True, "boolean"),
        ("model", "never", "id"),
        ("unknown", "s", "id"),
        ("fast", "yes", "id"),
        ("model", "s", "_colour"),
    ],
)
async def test_what_was_not_offered_is_refused(id: str, value: Any, kind: str) -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        session = await editor.open()
        assert (await choose(editor, session, id, value, kind))["error"]["code"] == INVALID_PARAMS
        assert sessions[0].mode == "ask"
        assert [sessions[0].config(name) for name in ("model", "mode", "fast")] == ["s", "l", False]


@pytest.mark.anyio
async def test_a_change_from_the_agents_side_tells_all_options() -> None:
    agent, sessions = settable()
    async with editing(agent) as editor:
        session = await editor.open()
        await sessions[0].set_mode("do")
        await sessions[0].set_config("model", "l")
        await editor.settled()
        told = [fits(update) for update in editor.client.updates(session)]
        assert [update["sessionUpdate"] for update in told] == ["config_option_update"] * 2
        assert values(told[0]["configOptions"]) == {"_mode": "do", "model": "s", "mode": "l", "fast": False}
        assert values(told[1]["configOptions"]) == {"_mode": "do", "model": "l", "mode": "l", "fast": False}
