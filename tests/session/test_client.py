"""What an agent asks its client for: only what was announced, withdrawn when it is not wanted any more."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import (
    Agent,
    CapabilityMissing,
    Client,
    ConnectionClosed,
    PermissionAnswer,
    RequestCancelled,
    RpcError,
    Turn,
    grace,
    schema,
)
from acp_server.errors import INTERNAL_ERROR, REQUEST_CANCELLED, MalformedResponse
from tests.session.editor import CANCELLED, END_TURN, EVERYTHING, editing

# One of the options that their agent offers is of a kind that only an extension has.
pytestmark = [pytest.mark.anyio, pytest.mark.odd_shapes]

Ask = Callable[[Client], Coroutine[Any, Any, Any]]

FORM = schema.ElicitationSchema(properties={"name": schema.StringPropertySchema(title="Name")}, required=["name"])
TOOL = schema.ToolCallUpdate(tool_call_id="c1", title="rm -rf")
OPTIONS = [
    schema.PermissionOption(option_id="y", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="a", name="Always", kind="allow_always"),
    schema.PermissionOption(option_id="n", name="No", kind="reject_once"),
    schema.PermissionOption(option_id="z", name="Odd", kind="_odd"),
]

CALLS: dict[str, tuple[str, Ask, dict[str, Any]]] = {
    "fs.readTextFile": (
        "fs/read_text_file",
        lambda client: client.read_text_file("/a", line=2, limit=3),
        {"path": "/a", "line": 2, "limit": 3},
    ),
    "fs.writeTextFile": (
        "fs/write_text_file",
        lambda client: client.write_text_file("/a", "text"),
        {"path": "/a", "content": "text"},
    ),
    "terminal": (
        "terminal/create",
        lambda client: client.create_terminal("ls", ["-l"], env={"K": "v"}, cwd="/a", output_byte_limit=9),
        {
            "command": "ls",
            "args": ["-l"],
            "env": [{"name": "K", "value": "v"}],
            "cwd": "/a",
            "outputByteLimit": 9,
        },
    ),
    "elicitation.form": (
        "elicitation/create",
        lambda client: client.elicit_form("Who?", FORM, tool_call_id="c1"),
        {
            "mode": "form",
            "message": "Who?",
            "toolCallId": "c1",
            "requestedSchema": {
                "type": "object",
                "properties": {"name": {"type": "string", "title": "Name"}},
                "required": ["name"],
            },
        },
    ),
    "elicitation.url": (
        "elicitation/create",
        lambda client: client.elicit_url("Log in", "https://a", elicitation_id="e1"),
        {"mode": "url", "message": "Log in", "url": "https://a", "elicitationId": "e1"},
    ),
}
PERMISSION: tuple[str, Ask, dict[str, Any]] = (
    "session/request_permission",
    lambda client: client.request_permission(TOOL, OPTIONS),
    {
        "toolCall": {"toolCallId": "c1", "title": "rm -rf"},
        "options": [option.to_wire() for option in OPTIONS],
    },
)
GOOD: dict[str, tuple[Any, Any]] = {
    "fs.readTextFile": ({"content": "text"}, "text"),
    "fs.writeTextFile": ({}, None),
    "elicitation.form": ({"action": "accept", "content": {"name": "X"}}, ("accept", {"name": "X"})),
    "elicitation.url": ({"action": "cancel"}, ("cancel", None)),
}


def asking(ask: Ask) -> tuple[Agent, list[Any]]:
    """An agent that asks, and what came of it."""
    agent = Agent("asks")
    outcomes: list[Any] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text != "go":
            return
        try:
            outcomes.append(await ask(turn.client))
        except BaseException as error:
            outcomes.append(error)
            if not isinstance(error, Exception):
                raise

    return agent, outcomes


@pytest.mark.parametrize("capability", CALLS)
async def test_what_was_announced_is_asked_for_in_the_session_and_its_result_comes_back(capability: str) -> None:
    method, ask, params = CALLS[capability]
    agent, outcomes = asking(ask)
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        asked = await editor.client.expect(method)
        assert asked["params"] == {"sessionId": session, **params}
        sent, expected = GOOD.get(capability, ({"terminalId": "t1"}, "t1"))
        await editor.client.respond(asked, sent)
        assert await editor.answer(id) == END_TURN
        (outcome,) = outcomes
        if capability == "terminal":
            outcome = outcome.id
        elif capability.startswith("elicitation"):
            outcome = outcome.action, getattr(outcome, "content", None)
        assert outcome == expected


@pytest.mark.parametrize("capability", CALLS)
async def test_what_was_not_announced_is_not_sent_and_the_error_names_the_capability(capability: str) -> None:
    method, ask, _ = CALLS[capability]
    outer, _, inner = capability.partition(".")
    without = {**EVERYTHING, outer: {**EVERYTHING[outer], inner: None} if inner else False}
    for capabilities in ({}, without):
        agent, outcomes = asking(ask)
        async with editing(agent, capabilities=capabilities) as editor:
            assert await editor.ask(await editor.open()) == END_TURN
            (error,) = outcomes
            assert isinstance(error, CapabilityMissing)
            assert (error.method, error.capability) == (method, f"clientCapabilities.{capability}")
            assert not editor.asked()


@pytest.mark.parametrize("capability", [*CALLS, "permission"])
@pytest.mark.parametrize("by", ["session", "request"])
@pytest.mark.behaviour("F8", "F14", "C1", "C2", "C5")
async def test_a_pending_request_is_withdrawn_by_a_cancel_and_its_late_answer_changes_nothing(
    capability: str, by: str
) -> None:
    method, ask, _ = CALLS.get(capability, PERMISSION)
    agent, outcomes = asking(ask)
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        asked = await editor.client.expect(method)
        await (editor.cancel(session) if by == "session" else editor.withdraw(id))
        assert await editor.answer(id) == CANCELLED
        assert editor.withdrawn() == [asked["id"]]
        assert not isinstance(outcomes[0], Exception)
        for late in ({"outcome": {"outcome": "cancelled"}}, {"outcome": {"outcome": "selected", "optionId": "y"}}):
            await editor.client.respond(asked, late)
        await editor.client.refuse(asked, REQUEST_CANCELLED)
        assert await editor.ask(session, "other") == END_TURN
        assert len(outcomes) == 1


@pytest.mark.parametrize("capability", [key for key in CALLS if key != "fs.writeTextFile"])
@pytest.mark.parametrize("result", [None, 7, "x", [], {}, {"content": 7, "terminalId": 7, "action": 7}])
async def test_a_malformed_result_is_an_error_that_names_the_method(capability: str, result: Any) -> None:
    method, ask, _ = CALLS[capability]
    agent, outcomes = asking(ask)
    async with editing(agent) as editor:
        editor.client.answer(method, result)
        assert await editor.ask(await editor.open()) == END_TURN
        (error,) = outcomes
        assert isinstance(error, MalformedResponse)
        assert error.method == method
        assert str(error).startswith(f"{method}: malformed response: ")


@pytest.mark.parametrize("result", [None, 7, {"anything": 1}])
async def test_any_answer_to_a_write_will_do(result: Any) -> None:
    method, ask, _ = CALLS["fs.writeTextFile"]
    agent, outcomes = asking(ask)
    async with editing(agent) as editor:
        editor.client.answer(method, result)
        assert await editor.ask(await editor.open()) == END_TURN
        assert outcomes == [None]


@pytest.mark.parametrize("capability", CALLS)
@pytest.mark.behaviour("C12", "C13")
async def test_an_error_answer_is_an_ordinary_exception_also_if_it_says_cancelled(capability: str) -> None:
    method, ask, _ = CALLS[capability]
    for code in (-32603, REQUEST_CANCELLED):
        agent, outcomes = asking(ask)
        async with editing(agent) as editor:
            id = await editor.prompt(await editor.open())
            await editor.client.refuse(await editor.client.expect(method), code, "no")
            assert await editor.answer(id) == END_TURN
            (error,) = outcomes
            assert isinstance(error, RequestCancelled if code == REQUEST_CANCELLED else RpcError)
            assert (error.code, error.message) == (code, "no")


@pytest.mark.behaviour("G1", "G16")
async def test_a_client_that_goes_away_fails_what_was_asked_of_it() -> None:
    agent, outcomes = asking(CALLS["fs.readTextFile"][1])
    async with editing(agent) as editor:
        await editor.prompt(await editor.open())
        await editor.client.expect("fs/read_text_file")
        editor.stream.end_input()
        await editor.client.wait_ended()
    (error,) = outcomes
    assert isinstance(error, ConnectionClosed)
    assert error.method == "fs/read_text_file"


# Permission


@pytest.mark.parametrize(
    ("outcome", "expected", "allowed"),
    [
        ({"outcome": "selected", "optionId": "y"}, PermissionAnswer("y", "allow_once"), True),
        ({"outcome": "selected", "optionId": "a"}, PermissionAnswer("a", "allow_always"), True),
        ({"outcome": "selected", "optionId": "n"}, PermissionAnswer("n", "reject_once"), False),
        ({"outcome": "selected", "optionId": "z"}, PermissionAnswer("z", "_odd"), False),
        ({"outcome": "selected", "optionId": "never offered"}, PermissionAnswer("never offered", None), False),
        ({"outcome": "cancelled"}, PermissionAnswer(None, None), False),
        ({"outcome": "approved", "optionId": "y"}, PermissionAnswer(None, None), False),
    ],
)
@pytest.mark.behaviour("F9")
async def test_only_an_offered_option_that_allows_is_an_approval(
    outcome: Any, expected: PermissionAnswer, allowed: bool
) -> None:
    method, ask, params = PERMISSION
    agent, outcomes = asking(ask)
    async with editing(agent, capabilities={}) as editor:
        session = await editor.open()
        editor.client.answer(method, {"outcome": outcome})
        assert await editor.ask(session) == END_TURN
        assert editor.client.all(method)[0]["params"] == {"sessionId": session, **params}
        assert outcomes == [expected]
        assert outcomes[0].allowed is allowed


@pytest.mark.parametrize("outcome", [{"outcome": "selected", "optionId": "y"}, {"outcome": "cancelled"}])
async def test_what_the_client_says_beside_its_answer_is_kept(outcome: Any) -> None:
    method, ask, _ = PERMISSION
    agent, outcomes = asking(ask)
    async with editing(agent, capabilities={}) as editor:
        session = await editor.open()
        editor.client.answer(method, {"outcome": outcome, "_meta": {"acpx": {"by": "policy"}}})
        assert await editor.ask(session) == END_TURN
        assert outcomes[0].meta == {"acpx": {"by": "policy"}}
        assert outcomes[0].allowed is (outcome["outcome"] == "selected")


@pytest.mark.parametrize(
    "answer",
    [
        {"result": None},
        {"result": {}},
        {"result": {"outcome": "selected", "optionId": "y"}},
        {"result": {"outcome": {"outcome": "selected"}}},
        {"result": True},
        {"error": {"code": -32603, "message": "no dialog"}},
        {"error": {"code": -32800, "message": "cancelled"}},
        {"error": "no dialog"},
    ],
)
async def test_a_client_that_fails_to_ask_has_not_approved_and_the_turn_goes_on(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    method, ask, _ = PERMISSION
    agent, outcomes = asking(ask)
    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        asked = await editor.client.expect(method)
        await editor.client.send({"jsonrpc": "2.0", "id": asked["id"], **answer})
        assert await editor.answer(id) == END_TURN
        assert outcomes == [PermissionAnswer(None, None)]
    assert "so the permission is not granted" in caplog.text


@pytest.mark.parametrize("order", ["cancel first", "allow first"])
@pytest.mark.parametrize("by", ["session", "request"])
@pytest.mark.behaviour("F9", "E12")
async def test_an_allow_that_comes_with_the_cancel_runs_no_tool_and_nothing_queued_behind_it(
    order: str, by: str
) -> None:
    agent = Agent("tools")
    ran: list[str] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        while (await turn.client.request_permission(TOOL, OPTIONS)).allowed:
            ran.append("tool")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        asked = await editor.client.expect("session/request_permission")
        allow = {"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}
        cancel = (
            editor.cancelling(session)
            if by == "session"
            else {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}
        )
        await editor.client.send(*([cancel, allow] if order == "cancel first" else [allow, cancel]))
        assert await editor.answer(id) == CANCELLED
        await editor.settled()
        assert not ran
        assert len(editor.asked("session/request_permission")) == 1


@pytest.mark.behaviour("C9", "C8")
async def test_cleanup_may_ask_the_client_in_a_grace_block_and_nowhere_else() -> None:
    agent = Agent("cleans up")
    sent: list[str] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        try:
            await turn.say("here")
            await anyio.sleep_forever()
        finally:
            with grace():
                sent.append(await turn.client.read_text_file("/shielded"))
            await turn.client.read_text_file("/cut")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        await editor.cancel(session)
        asked = await editor.client.expect("fs/read_text_file")
        await editor.client.respond(asked, {"content": "read"})
        assert await editor.answer(id) == CANCELLED
        assert sent == ["read"]
        assert editor.asked("fs/") == ["fs/read_text_file"]
        assert not editor.withdrawn()


@pytest.mark.behaviour("C14", "C1")
async def test_when_one_of_several_requests_fails_the_others_are_withdrawn_and_the_failure_is_the_outcome() -> None:
    agent = Agent("many")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with anyio.create_task_group() as group:
            for path in ("/a", "/b", "/c"):
                group.start_soon(turn.client.read_text_file, path)

    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        asked = [await editor.client.expect("fs/read_text_file") for _ in range(3)]
        await editor.client.refuse(asked[1], -31000, "gone")
        assert await editor.answer(id) == {"code": -31000, "message": "gone"}
        assert sorted(editor.withdrawn()) == sorted([asked[0]["id"], asked[2]["id"]])


async def test_an_extension_of_the_client_can_be_asked_and_told() -> None:
    agent = Agent("extends")
    outcomes: list[Any] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.client.notify("_ext/told", {"a": 1})
        turn.client.elicitation_complete("e1")
        outcomes.append(await turn.client.request("_ext/asked", {"b": 2}))
        try:
            await turn.client.request("_ext/slow", timeout=0)
        except TimeoutError as error:
            outcomes.append(str(error))

    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        assert (await editor.client.expect("_ext/told"))["params"] == {"a": 1}
        assert (await editor.client.expect("elicitation/complete"))["params"] == {"elicitationId": "e1"}
        await editor.client.respond(await editor.client.expect("_ext/asked"), [3])
        assert await editor.answer(id) == END_TURN
        assert outcomes == [[3], "_ext/slow was not answered within 0 s"]


async def test_an_error_of_the_client_that_nobody_catches_fails_the_turn_only() -> None:
    agent = Agent("careless")

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return await turn.client.read_text_file("/a")

    async with editing(agent) as editor:
        session = await editor.open()
        editor.client.answer("fs/read_text_file", {})
        assert await editor.code(await editor.prompt(session)) == INTERNAL_ERROR
        editor.client.answer("fs/read_text_file", {"content": "text"})
        assert await editor.ask(session) == END_TURN
