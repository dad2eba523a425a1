"""What authors write by mistake, and what had no effect, or another one, without a word about it."""

from pathlib import Path
from typing import Any

import pytest

from acp_server import Agent, Call, Connection, MemoryStore, Session, SqliteStore, ToolContext, Turn, UserAction
from acp_server.errors import INTERNAL_ERROR, UsageError
from acp_server.schema import (
    AvailableCommand,
    Diff,
    PermissionOption,
    PlanEntry,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
    TextContent,
    ToolCallUpdate,
)
from acp_server.session.client import PermissionAnswer
from acp_server.store.records import ToolResult
from tests.session.editor import editing

SIZES = [SessionConfigSelectOption(value=value, name=value) for value in ("small", "large")]
RETURNED = "returned False, which does not refuse the login"


def deciding(returned: Any, *, required: bool = False) -> Agent:
    """An agent whose handlers raise nothing, and return something."""
    agent = Agent("a")
    agent.modes(SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code"))
    agent.config_options(SessionConfigSelect(id="size", name="Size", current_value="small", options=SIZES))

    @agent.set_mode
    async def mode(session: Session, id: str) -> Any:
        return returned

    @agent.set_config_option
    def option(session: Session, id: str, value: Any) -> Any:
        return returned

    @agent.authenticate("account", name="Account", required=required)
    async def log_in(call: Call) -> Any:
        return returned

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return f"{turn.session.mode}, {turn.session.config('size')}"

    return agent


@pytest.mark.anyio
async def test_a_login_that_returns_false_lets_no_client_in(caplog: pytest.LogCaptureFixture) -> None:
    async with editing(deciding(False, required=True)) as editor:
        assert (await editor.refusal("authenticate", {"methodId": "account"}))["code"] == -32603
        assert (await editor.refusal("session/new", {"cwd": "/", "mcpServers": []}))["code"] == -32000
    assert RETURNED in caplog.text


@pytest.mark.anyio
async def test_a_choice_whose_handler_returns_false_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with editing(deciding(False)) as editor:
        session = await editor.open()
        mode = {"sessionId": session, "modeId": "code"}
        assert (await editor.refusal("session/set_mode", mode))["code"] == -32603
        size = {"sessionId": session, "configId": "size", "value": "large"}
        assert (await editor.refusal("session/set_config_option", size))["code"] == -32603
        await editor.ask(session)
        assert editor.client.updates(session)[-1]["content"]["text"] == "ask, small"
    assert "the mode handler deciding.<locals>.mode returned False" in caplog.text
    assert "the option handler deciding.<locals>.option returned False" in caplog.text


@pytest.mark.anyio
async def test_another_value_that_has_no_effect_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with editing(deciding({"ok": 1})) as editor:
        session = await editor.open()
        for mode in ("code", "ask", "code"):
            await editor.client.result("session/set_mode", {"sessionId": session, "modeId": mode})
        await editor.ask(session)
        assert editor.client.updates(session)[-1]["content"]["text"] == "code, small"
    assert caplog.text.count("returned a dict, which has no effect") == 1


@pytest.mark.parametrize("option", ["auto_approve", "asks_each_time", "approval_key", "approval_timeout"])
def test_an_option_about_the_question_needs_a_question(option: str) -> None:
    options: dict[str, Any] = {option: {"approval_timeout": 5, "approval_key": "k"}.get(option, True)}
    with pytest.raises(UsageError, match=f"{option} needs approval=True, because without approval the user is never"):
        Agent("a").tool(name="t", **options)(lambda: None)
    Agent("a").tool(name="t", approval=False, **options)(lambda: None)  # as a program decides it


def test_history_is_true_or_false() -> None:
    wrong: Any = "no"
    with pytest.raises(UsageError, match="history must be True or False, not 'no'"):
        Agent("a", history=wrong)


def test_a_handler_of_something_else_is_refused() -> None:
    def method(turn: Turn) -> None: ...
    def notification(call: Call, path: str) -> None: ...
    async def prompt(session: Session) -> None: ...
    def session(turn: Turn) -> None: ...
    def login(context: ToolContext) -> None: ...

    agent: Any = Agent("a")
    for register, function, words in (
        (agent.method("_m"), method, "passes the call as .+ first parameter is turn: .*Turn"),
        (agent.notification("_n"), notification, "passes the connection as .+ first parameter is call: .*Call"),
        (agent.prompt, prompt, "passes the turn as .+ first parameter is session: .*Session"),
        (agent.session, session, "passes the session as .+ first parameter is turn: .*Turn"),
        (agent.authenticate("x", name="X"), login, "passes the call as .+ first parameter is context: .*ToolContext"),
    ):
        with pytest.raises(UsageError, match=words):
            register(function)
    agent.notification("_o")(lambda connection: None)

    @agent.notification("_p")
    def moved(connection: Connection) -> None: ...


def test_what_an_answer_is_worth_in_a_condition() -> None:
    assert PermissionAnswer("yes", "allow_once")
    assert not PermissionAnswer("no", "reject_once")
    assert not PermissionAnswer(None, None)
    assert UserAction(True, False)
    assert not UserAction(False, True)
    assert ToolResult("1", "t", "completed", None)
    assert not ToolResult("1", "t", "rejected", "no")


@pytest.mark.anyio
async def test_what_cannot_be_shown_is_named_and_not_sent() -> None:
    agent = Agent("a")
    entry = PlanEntry(content="a", priority="high", status="pending")
    command = AvailableCommand(name="a", description="b")
    diff = Diff(path="/a", old_text="a", new_text="b")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        said: Any = turn
        for awaited, words in (
            (said.say(3), "expected text, not int"),
            (said.say(TextContent(text="x")), "expected text, not TextContent"),
            (said.think(None), "expected text, not NoneType"),
            (said.plan(entry), "a plan must be a list of str or PlanEntry, not PlanEntry"),
            (said.plan([5]), "a plan must be a list of str or PlanEntry, not of int"),
            (said.plan("a"), "a plan must be a list of str or PlanEntry, not str"),
            (said.update("a"), "expected a session update of .+, such as ToolCall, not str$"),
            (said.update(TextContent(text="x")), "not TextContent"),
            (said.update({"sessionUpdate": "plan"}), r"not dict; from_wire\(SessionUpdate, ...\) of .+ reads one"),
            (said.show(diff), "cannot show Diff; expected .+; it is content of a ToolCall"),
            (said.show(ToolCallUpdate(tool_call_id="a")), "cannot show ToolCallUpdate; .+; say a ToolCallProgress"),
            (said.session.update(TextContent(text="x")), "not TextContent"),
            (
                said.session.set_commands(command),
                "the commands must be a list of AvailableCommand, not AvailableCommand",
            ),
            (said.session.set_commands(["a"]), "not list of str"),
        ):
            with pytest.raises(UsageError, match=words):
                await awaited

    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == {"stopReason": "end_turn"}
        assert editor.client.updates(session) == []


@pytest.mark.anyio
async def test_a_question_that_no_answer_can_be_told_of_is_not_asked() -> None:
    agent = Agent("a")
    yes = PermissionOption(option_id="x", name="Yes", kind="allow_once")
    no = PermissionOption(option_id="x", name="No", kind="reject_once")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        call = ToolCallUpdate(tool_call_id="a")
        with pytest.raises(UsageError, match="two options with the option_id 'x'"):
            await turn.client.request_permission(call, [yes, no])
        with pytest.raises(UsageError, match="needs at least one option"):
            await turn.client.request_permission(call, [])

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == {"stopReason": "end_turn"}
        assert not editor.client.all("session/request_permission")


@pytest.mark.anyio
async def test_a_store_that_gives_something_else_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Listing(MemoryStore):
        async def list(self, cwd: str | None, cursor: str | None) -> Any:
            return []

        def load(self, session_id: str, *, cwd: str | None = None) -> Any:
            return {} if session_id == "now" else later()

    async def later() -> Any:
        return {}

    agent = Agent("a", store=Listing())

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        await editor.refusal("session/list", {})
        for session in ("now", "later"):
            await editor.refusal("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
            # It is asked whether there is such a session to be loaded.
            assert (await editor.ask(session))["code"] == INTERNAL_ERROR
    assert "Listing.list must return a Page, not a list" in caplog.text
    assert caplog.text.count("Listing.load must be `async def`") == 2
    assert caplog.text.count("Listing.load must return a SessionRecord or None, not a dict") == 2


def test_a_store_whose_methods_take_something_else_is_refused() -> None:
    class Short(MemoryStore):
        async def load(self, session_id: str) -> Any: ...

    short: Any = Short()

    with pytest.raises(UsageError, match=r"store.load does not accept the arguments of SessionStore.load: .*'cwd'"):
        Agent("a", store=short)


def test_a_file_of_sessions_may_be_in_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert SqliteStore("~/s.db").path == tmp_path / "s.db"
    for address in ("sqlite:///s.db", "file:s.db"):
        with pytest.raises(UsageError, match=r"needs the path of a file, such as 'sessions.db', not the address"):
            SqliteStore(address)
