"""Whether a tool may run: what is asked, what counts as a yes, what is remembered."""

import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from acp_server import Agent, Approval, Session, ToolContext, Turn
from acp_server.schema import Diff, TextContent
from acp_server.session import client
from tests.session.editor import CANCELLED, END_TURN, EVERYTHING, editing
from tests.tools.kept import PERMISSION, Kept, selected, updates

NO_BOOLEANS = {key: value for key, value in EVERYTHING.items() if key != "session"}

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("answer", "status", "ran"),
    [
        (selected("allow_once"), "completed", 1),
        (selected("allow_always"), "completed", 1),
        (selected("reject_once"), "rejected", 0),
        (selected("reject_always"), "rejected", 0),
        ({"outcome": {"outcome": "cancelled"}}, "cancelled", 0),
        (selected("allow"), "rejected", 0),
        ({"outcome": {"outcome": "approved"}}, "rejected", 0),
        ({}, "rejected", 0),
        (None, "rejected", 0),
    ],
)
@pytest.mark.behaviour("F14")
async def test_only_an_offered_option_that_allows_lets_it_run(answer: Any, status: str, ran: int) -> None:
    kept = Kept()
    async with editing(kept.agent) as editor:
        editor.client.answer(PERMISSION, answer)
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        assert [u.get("status") for u in updates(editor)][-1] == ("completed" if ran else "failed")
    assert (kept.status, kept.ran) == (status, ran)
    if not ran:
        assert kept.results[0].message


async def test_the_outcome_cancelled_waits_for_the_cancel_of_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOMENT", 60)
    kept = Kept()
    async with editing(kept.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        request = await editor.client.expect_request(PERMISSION)
        await editor.client.respond(request, {"outcome": {"outcome": "cancelled"}})
        await editor.settled()
        assert not kept.results
        await editor.cancel(session)
        assert await editor.answer(prompt) == CANCELLED
    assert not kept.ran


@pytest.mark.parametrize("code", [-32601, -32603, -32800])
async def test_a_client_that_cannot_ask_its_user_runs_nothing(code: int) -> None:
    kept = Kept()
    async with editing(kept.agent, capabilities={}) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await editor.client.refuse(await editor.client.expect_request(PERMISSION), code)
        assert await editor.answer(prompt) == END_TURN
    assert (kept.status, kept.ran) == ("rejected", 0)


async def test_the_question_says_what_will_happen_and_shows_it() -> None:
    def question(path: str, call: ToolContext) -> Approval:
        assert call.name == "touch"
        return Approval(
            f"It changes {path}.",
            title=f"Touch {path}",
            preview=[Diff(path=f"/project/{path}", old_text="old", new_text="new"), "and nothing else"],
            primary="Apply",
            secondary="Leave it",
        )

    kept = Kept(approval=question)
    async with editing(kept.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        request = await editor.client.expect_request(PERMISSION)
        call = request["params"]["toolCall"]
        assert (call["title"], call["kind"], call["status"]) == ("Touch b", "edit", "pending")
        assert [piece["type"] for piece in call["content"]] == ["diff", "content", "content"]
        assert call["content"][1]["content"]["text"] == "It changes b."
        assert call["content"][0]["newText"] == "new"
        assert call["locations"] == [{"path": "/project/b"}]
        shown = updates(editor)[-1]
        assert {key: shown[key] for key in ("content", "locations", "title")} == {
            key: call[key] for key in ("content", "locations", "title")
        }
        assert [(o["kind"], o["name"]) for o in request["params"]["options"]] == [
            ("allow_once", "Apply"),
            ("allow_always", "Apply, always in this session: all calls of touch"),
            ("reject_once", "Leave it"),
            ("reject_always", "Leave it, always in this session: all calls of touch"),
        ]
        await editor.client.respond(request, selected("allow_once"))
        assert await editor.answer(prompt) == END_TURN
        # What was approved stays to be seen.
        assert [piece["type"] for piece in updates(editor)[-1]["content"]] == ["diff", "content", "content"]


async def test_a_question_may_offer_only_this_time_and_be_just_text() -> None:
    kept = Kept(approval=lambda path: Approval("Really?", remember=False))
    async with editing(kept.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        request = await editor.client.expect_request(PERMISSION)
        assert [o["kind"] for o in request["params"]["options"]] == ["allow_once", "reject_once"]
        await editor.client.respond(request, selected("reject_once"))
        await editor.answer(prompt)
    kept = Kept(approval=lambda path: f"May {path} be touched?")
    async with editing(kept.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        request = await editor.client.expect_request(PERMISSION)
        assert request["params"]["toolCall"]["content"][0]["content"]["text"] == "May b be touched?"
        await editor.client.respond(request, selected("reject_once"))
        await editor.answer(prompt)


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
async def test_a_choice_without_a_label_has_the_one_that_says_what_it_is(blank: str) -> None:
    kept = Kept(approval=lambda path: Approval("Really?", primary=blank, secondary=blank))
    async with editing(kept.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        request = await editor.client.expect_request(PERMISSION)
        assert [(o["kind"], o["name"]) for o in request["params"]["options"]] == [
            ("allow_once", "Allow"),
            ("allow_always", "Allow, always in this session: all calls of touch"),
            ("reject_once", "Reject"),
            ("reject_always", "Reject, always in this session: all calls of touch"),
        ]
        await editor.client.respond(request, selected("reject_once"))
        await editor.answer(prompt)


async def _raises(path: str) -> Approval:
    raise OSError("/secret/path")


@pytest.mark.parametrize(
    "question",
    [
        _raises,
        lambda path: 5,
        lambda path: Approval("May it?", preview=object()),
        lambda path: Approval("May it?", preview=TextContent.model_validate({"text": "a", "data": b"\xff"})),
        lambda path: Approval(5),  # pyright: ignore[reportArgumentType]
        lambda path: Approval("May it?", title=5),  # pyright: ignore[reportArgumentType]
        lambda path: Approval("May it?", primary=5),  # pyright: ignore[reportArgumentType]
    ],
    ids=[
        "raises",
        "returns no question",
        "has a preview that cannot be shown",
        "has a preview that cannot be written",
        "has a message that is no text",
        "has a title that is no text",
        "has a label that is no text",
    ],
)
async def test_a_question_that_cannot_be_made_runs_nothing(
    question: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(approval=question)
    async with editing(kept.agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        assert editor.asked(PERMISSION) == []
        assert updates(editor)[-1]["status"] == "failed"
        assert "secret" not in str(editor.client.received)
    assert (kept.status, kept.ran) == ("failed", 0)
    assert "could not be made" in (kept.results[0].message or "")
    assert caplog.records


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("tool", [False, True])
@pytest.mark.parametrize("booleans", [False, True])
async def test_it_runs_without_asking_only_if_the_user_and_the_tool_both_allow_it(
    user: bool, tool: bool, booleans: bool
) -> None:
    kept = Kept(auto_approve=tool)

    # So that the setting is there whatever the tool says.
    @kept.agent.tool(approval=True, auto_approve=True)
    async def other() -> None: ...

    async with editing(kept.agent, capabilities=EVERYTHING if booleans else NO_BOOLEANS) as editor:
        answer = await editor.client.result("session/new", {"cwd": "/project", "mcpServers": []})
        session = answer["sessionId"]
        [option] = answer["configOptions"]
        assert option["type"] == ("boolean" if booleans else "select")
        assert option["currentValue"] == (False if booleans else "off")
        if user:
            value: dict[str, Any] = {"type": "boolean", "value": True} if booleans else {"value": "on"}
            changed = await editor.client.result(
                "session/set_config_option", {"sessionId": session, "configId": "auto_approve", **value}
            )
            assert changed["configOptions"][0]["currentValue"] == (True if booleans else "on")
        editor.client.answer(PERMISSION, selected("reject_once"))
        await editor.ask(session)
        assert bool(editor.asked(PERMISSION)) == (not (user and tool))
    assert kept.ran == (user and tool)
    if user and tool:
        assert kept.actions == [(True, False)]


@pytest.mark.parametrize("way", ["by the setting", "for always"])
async def test_what_runs_without_asking_shows_what_it_would_have_asked(way: str) -> None:
    diff = Diff(path="/project/a", old_text="old", new_text="new")
    kept = Kept(approval=lambda path: Approval("Really?", title="Change a", preview=diff), auto_approve=True)
    async with editing(kept.agent) as editor:
        editor.client.answer(PERMISSION, selected("allow_always"))
        session = await editor.open()
        if way == "by the setting":
            setting = {"sessionId": session, "configId": "auto_approve", "type": "boolean", "value": True}
            await editor.client.result("session/set_config_option", setting)
        else:
            await editor.ask(session)
        asked = len(editor.asked(PERMISSION))
        before = len(updates(editor))
        await editor.ask(session)
        assert len(editor.asked(PERMISSION)) == asked
        _, explained, begun, ended = updates(editor)[before:]
        # All of it before the function is called.
        assert explained["title"] == "Change a"
        assert begun["status"] == "in_progress"
        for update, more in ((explained, []), (ended, ["touched"])):
            change, words, *said = update["content"]
            assert words["content"]["text"] == "Really?"
            assert change["newText"] == "new"
            assert [piece["content"]["text"] for piece in said] == more
    assert kept.status == "completed"


async def test_what_runs_without_asking_shows_no_question_that_explains_nothing() -> None:
    kept = Kept(auto_approve=True)
    async with editing(kept.agent) as editor:
        session = await editor.open()
        setting = {"sessionId": session, "configId": "auto_approve", "type": "boolean", "value": True}
        await editor.client.result("session/set_config_option", setting)
        await editor.ask(session)
        assert [piece["content"]["text"] for piece in updates(editor)[-1]["content"]] == ["touched"]


async def test_a_tool_that_asks_each_time_is_not_allowed_for_always() -> None:
    class Allowed:
        async def get(self, session: Session, tool: str) -> bool | None:
            return True

        async def put(self, session: Session, tool: str, allowed: bool) -> None:
            raise AssertionError

    kept = Kept(Agent("a", approvals=Allowed()), asks_each_time=True)
    async with editing(kept.agent) as editor:
        session = await editor.open()
        for _ in range(2):
            prompt = await editor.prompt(session)
            request = await editor.client.expect_request(PERMISSION)
            offered = [option["optionId"] for option in request["params"]["options"]]
            assert offered == ["allow_once", "reject_once", "reject_always"]
            await editor.client.respond(request, selected("allow_once"))
            assert await editor.answer(prompt) == END_TURN
    assert kept.ran == 2


async def test_the_setting_is_there_only_if_a_tool_heeds_it() -> None:
    async with editing(Kept().agent) as editor:
        answer = await editor.client.result("session/new", {"cwd": "/project", "mcpServers": []})
        assert "configOptions" not in answer


async def test_no_answer_in_time_is_a_no() -> None:
    kept = Kept(approval_timeout=0.05)
    async with editing(kept.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        request = await editor.client.expect_request(PERMISSION)
        assert await editor.answer(prompt) == END_TURN
        await editor.client.respond(request, selected("allow_once"))
        await editor.settled()
        assert editor.withdrawn() == [request["id"]]
    assert (kept.status, kept.ran) == ("rejected", 0)
    assert kept.results[0].message == "The user did not approve it within 0.05 s, so it was not run."


@pytest.mark.parametrize(
    ("answer", "action"),
    [("allow_once", (True, False)), ("reject_once", (False, True)), ("nothing of it", (False, False))],
)
async def test_a_function_that_answers_refusals_learns_what_the_user_did(answer: str, action: Any) -> None:
    from acp_server import Tool

    seen: list[tuple[bool, bool]] = []

    async def decide(call: ToolContext) -> str:
        seen.append((call.primary_confirmed, call.secondary_confirmed))
        return "said by the tool"

    agent = Agent("a")
    agent.add_tool(Tool(decide, approval=True, answers_refusal=True))

    @agent.prompt
    async def prompt(turn: Turn) -> str | None:
        result = await turn.run_tool("decide")
        assert result.status == ("completed" if action[0] else "rejected")
        return result.message

    async with editing(agent) as editor:
        editor.client.answer(PERMISSION, selected(answer))
        session = await editor.open()
        await editor.ask(session)
        assert editor.said() == ["said by the tool"]
    assert seen == [action]


@pytest.mark.behaviour("C3", "F6")
async def test_two_hundred_tools_that_wait_for_permission_are_cancelled_at_once() -> None:
    agent = Agent("a")
    ran: list[int] = []

    @agent.tool(approval=True)
    async def touch(number: int) -> None:
        ran.append(number)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async def one(number: int) -> None:
            await turn.run_tool(touch, {"number": number})

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(one, number)

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        requests = [await editor.client.expect_request(PERMISSION) for _ in range(200)]
        # The time that it takes of this thread, in which all of it runs: on a busy machine that of the clock is longer.
        begin = time.thread_time()
        await editor.cancel(session)
        with anyio.fail_after(20):
            assert await editor.answer(id) == CANCELLED
        took = time.thread_time() - begin
        # Late answers, all of them a yes.
        for request in requests:
            await editor.client.respond(request, selected("allow_once"))
        await editor.settled()
        assert sorted(editor.withdrawn()) == sorted(request["id"] for request in requests)
        finals = [u["toolCallId"] for u in updates(editor) if u.get("status") == "failed"]
        assert len(finals) == len({*finals}) == 200
    assert ran == []
    assert took < 1
    assert threading.active_count() < 20
