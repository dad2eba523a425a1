"""Several calls of one tool that are asked about at the same time: what is decided for always is decided for them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server import Agent, Approval, Connection, Session, Turn
from tests.session.editor import CANCELLED, END_TURN, Editor, editing
from tests.tools.calls import shown
from tests.tools.kept import PERMISSION, selected

NEVER = "The user does not allow this in this session, so it was not run."
REFUSED = "The user did not allow it, so it was not run."

pytestmark = pytest.mark.anyio


class Three:
    """An agent whose turns call tools side by side. It keeps what is decided in its own time, unless that is kept in
    the session."""

    def __init__(self, *names: str, in_session: bool = False, key: str | None = None) -> None:
        self.names = names or ("touch", "touch", "touch")
        self.ran: list[str] = []
        self.results: dict[str, tuple[str, str | None]] = {}
        self.decisions: dict[str, bool] = {}
        self.looking: dict[str, anyio.Event] = {}
        """By the number of a look-up: what it waits for, having found nothing."""
        self.looked = 0
        self.keeping = anyio.Event()
        self.may_keep = anyio.Event()
        self.may_keep.set()
        self.cannot_keep = False
        self.noticed = anyio.Event()
        self.go_on = anyio.Event()
        self.agent = agent = Agent("three", approvals=None if in_session else self)

        def question(id: str) -> Approval:
            return Approval(f"May {id} be?", preview=f"preview of {id}")

        for name in sorted({*self.names}):

            @agent.tool(name=name, approval=question, approval_key=key)
            async def run(id: str) -> str:
                self.ran.append(id)
                return f"{id} ran"

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            async with anyio.create_task_group() as group:
                for name, id in zip(self.names, "abc", strict=True):
                    group.start_soon(self.one, turn, name, id)

        @agent.notification("_slow")
        async def slow(connection: Connection) -> None:
            self.noticed.set()
            await self.go_on.wait()

    async def one(self, turn: Turn, name: str, id: str) -> None:
        result = await turn.run_tool(name, {"id": id}, id=id)
        self.results[id] = (result.status, result.message)

    async def get(self, session: Session, tool: str) -> bool | None:
        self.looked += 1
        found = self.decisions.get(f"{session.id} {tool}")
        if (wait := self.looking.get(str(self.looked))) is not None:
            await wait.wait()
        return found

    async def put(self, session: Session, tool: str, allowed: bool) -> None:
        self.keeping.set()
        await self.may_keep.wait()
        if self.cannot_keep:
            raise OSError
        self.decisions[f"{session.id} {tool}"] = allowed

    @asynccontextmanager
    async def asked(self, number: int = 3) -> AsyncGenerator[tuple[Editor, str, Any, dict[str, Any]]]:
        """An editor that was asked so often: itself, the session, the prompt's id, the questions by their calls."""
        async with editing(self.agent) as editor:
            session = await editor.open()
            prompt = await editor.prompt(session)
            requests = [await editor.client.expect_request(PERMISSION) for _ in range(number)]
            yield editor, session, prompt, {r["params"]["toolCall"]["toolCallId"]: r for r in requests}


def answering(request: Any, option: str) -> dict[str, Any]:
    outcome = selected(option) if option else {"outcome": {"outcome": "cancelled"}}
    return {"jsonrpc": "2.0", "id": request["id"], "result": outcome}


@pytest.mark.behaviour("F14")
@pytest.mark.parametrize("late", ["allow_once", "reject_once", ""])
@pytest.mark.parametrize(("option", "ran"), [("allow_always", True), ("reject_always", False)])
async def test_the_others_are_decided_with_it_and_their_questions_withdrawn(option: str, ran: bool, late: str) -> None:
    three = Three()
    async with three.asked() as (editor, _, prompt, asked):
        await editor.client.respond(asked["b"], selected(option))
        assert await editor.answer(prompt) == END_TURN
        assert sorted(editor.withdrawn()) == sorted(asked[id]["id"] for id in "ac")
        # By now it makes no difference.
        for id in "ac":
            await editor.client.send(answering(asked[id], late))
        await editor.settled()
        finals = {u["toolCallId"]: u for u in shown(editor) if u.get("status") in ("completed", "failed")}
        assert len(finals) == 3
        for id, final in finals.items():
            assert final["content"][0]["content"]["text"] == f"preview of {id}"
    assert sorted(three.ran) == (["a", "b", "c"] if ran else [])
    if ran:
        assert three.results == {id: ("completed", f"{id} ran") for id in "abc"}
    else:
        assert three.results == {"a": ("rejected", NEVER), "b": ("rejected", REFUSED), "c": ("rejected", NEVER)}


@pytest.mark.parametrize("option", ["allow_once", "reject_once"])
async def test_what_is_decided_for_this_time_leaves_the_others_as_they_are(option: str) -> None:
    three = Three()
    async with three.asked() as (editor, _, prompt, asked):
        for id in "abc":
            await editor.settled()
            assert len(three.results) == "abc".index(id)
            await editor.client.respond(asked[id], selected(option))
            await editor.client.expect(lambda m, id=id: _ended(m, id))
        assert await editor.answer(prompt) == END_TURN
        assert editor.withdrawn() == []


async def test_other_tools_and_other_sessions_are_asked_about_all_the_same() -> None:
    three = Three("touch", "delete", "touch")
    async with three.asked() as (editor, _, prompt, asked):
        other = await editor.prompt(await editor.open())
        elsewhere = [await editor.client.expect_request(PERMISSION) for _ in range(3)]
        await editor.client.respond(asked["a"], selected("allow_always"))
        await editor.client.expect(lambda m: _ended(m, "c"))
        await editor.settled()
        assert sorted(three.ran) == ["a", "c"]
        assert editor.withdrawn() == [asked["c"]["id"]]
        await editor.client.respond(asked["b"], selected("reject_once"))
        assert await editor.answer(prompt) == END_TURN
        for request in elsewhere:
            await editor.client.respond(request, selected("reject_once"))
        assert await editor.answer(other) == END_TURN
    assert sorted(three.ran) == ["a", "c"]


async def test_tools_that_share_what_decisions_are_kept_under_are_decided_about_together() -> None:
    three = Three("touch", "delete", "move", key="files")
    async with three.asked() as (editor, _, prompt, asked):
        await editor.client.respond(asked["a"], selected("allow_always"))
        assert await editor.answer(prompt) == END_TURN
        assert sorted(editor.withdrawn()) == sorted(asked[id]["id"] for id in "bc")
    assert sorted(three.ran) == ["a", "b", "c"]


@pytest.mark.parametrize("in_session", [True, False])
@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize(
    ("option", "answer", "status", "ran"),
    [
        ("allow_always", "reject_once", "rejected", "ac"),
        ("allow_always", "", "cancelled", "ac"),
        ("reject_always", "allow_once", "completed", "b"),
    ],
)
async def test_an_answer_that_arrives_together_with_the_decision_counts_for_its_own_call(
    order: str, option: str, answer: str, status: str, ran: str, in_session: bool
) -> None:
    three = Three(in_session=in_session)
    async with three.asked() as (editor, _, prompt, asked):
        answers = {"a": answering(asked["a"], option), "b": answering(asked["b"], answer)}
        # In one chunk.
        await editor.client.send(*(answers[id] for id in order))
        assert await editor.answer(prompt) == END_TURN
        assert editor.withdrawn() == [asked["c"]["id"]]
    assert three.results["b"][0] == status
    assert sorted(three.ran) == [*ran]


@pytest.mark.parametrize(
    ("option", "answer", "ran"),
    [("allow_always", "reject_once", "ac"), ("allow_always", "", "ac"), ("reject_always", "allow_once", "b")],
)
async def test_so_does_one_that_has_arrived_and_waits_behind_a_notification(option: str, answer: str, ran: str) -> None:
    three = Three()
    three.may_keep = anyio.Event()
    async with three.asked() as (editor, _, prompt, asked):
        await editor.client.send(answering(asked["a"], option))
        await three.keeping.wait()
        await editor.client.send({"jsonrpc": "2.0", "method": "_slow"}, answering(asked["b"], answer))
        await three.noticed.wait()
        await editor.settled()
        assert three.results == {}
        three.may_keep.set()
        assert await editor.answer(prompt) == END_TURN
        assert editor.withdrawn() == [asked["c"]["id"]]
        three.go_on.set()
    assert sorted(three.ran) == [*ran]


async def test_a_call_that_is_about_to_ask_when_it_is_decided_does_not_ask() -> None:
    three = Three()
    three.looking["3"] = anyio.Event()
    async with three.asked(2) as (editor, _, prompt, asked):
        await editor.client.respond(next(iter(asked.values())), selected("allow_always"))
        await editor.client.expect(lambda m: any(_ended(m, id) for id in asked))
        await editor.settled()
        three.looking["3"].set()
        assert await editor.answer(prompt) == END_TURN
        assert len(editor.asked(PERMISSION)) == 2
        assert len(editor.withdrawn()) == 1
    assert sorted(three.ran) == ["a", "b", "c"]


async def test_a_call_whose_question_is_still_being_made_when_it_is_decided_does_not_ask() -> None:
    agent = Agent("slow")
    making, go_on = anyio.Event(), anyio.Event()

    async def question(id: str) -> Approval:
        if id == "b":
            making.set()
            await go_on.wait()
        return Approval(f"May {id} be?")

    @agent.tool(approval=question)
    async def touch(id: str) -> str:
        return f"{id} ran"

    results: dict[str, tuple[str, str | None]] = {}

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async def one(id: str) -> None:
            result = await turn.run_tool("touch", {"id": id}, id=id)
            results[id] = (result.status, result.message)

        async with anyio.create_task_group() as group:
            group.start_soon(one, "a")
            group.start_soon(one, "b")

    async with editing(agent) as editor:
        prompt_id = await editor.prompt(await editor.open())
        await making.wait()
        await editor.client.respond(await editor.client.expect_request(PERMISSION), selected("allow_always"))
        await editor.client.expect(lambda m: _ended(m, "a"))
        go_on.set()
        assert await editor.answer(prompt_id) == END_TURN
        assert len(editor.asked(PERMISSION)) == 1
    assert results == {id: ("completed", f"{id} ran") for id in "ab"}


async def test_a_decision_that_cannot_be_kept_holds_for_its_own_call_only() -> None:
    three = Three()
    three.cannot_keep = True
    async with three.asked() as (editor, _, prompt, asked):
        await editor.client.respond(asked["a"], selected("allow_always"))
        await editor.client.expect(lambda m: _ended(m, "a"))
        await editor.settled()
        assert (three.ran, editor.withdrawn()) == (["a"], [])
        for id in "bc":
            await editor.client.respond(asked[id], selected("reject_once"))
        assert await editor.answer(prompt) == END_TURN
    assert three.ran == ["a"]


async def test_a_turn_that_is_cancelled_while_the_decision_is_kept_runs_nothing() -> None:
    three = Three()
    three.may_keep = anyio.Event()
    async with three.asked() as (editor, session, prompt, asked):
        await editor.client.respond(asked["a"], selected("allow_always"))
        await three.keeping.wait()
        await editor.cancel(session)
        assert await editor.answer(prompt) == CANCELLED
        three.may_keep.set()
        await editor.settled()
        assert sorted(editor.withdrawn()) == sorted(asked[id]["id"] for id in "bc")
    assert three.ran == []


def _ended(message: Any, id: str) -> bool:
    update = message.get("params", {}).get("update", {})
    return update.get("toolCallId") == id and update.get("status") in ("completed", "failed")
