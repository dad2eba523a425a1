"""Decisions for all further calls of a tool: how long they hold, and where they are kept."""

from typing import Any

import pytest

from acp_server import Agent, Always, Session, ToolContext, Turn
from tests.session.editor import Editor, editing
from tests.tools.kept import PERMISSION, Kept, selected

pytestmark = pytest.mark.anyio


async def test_a_decision_for_always_holds_for_the_tool_and_the_session_only() -> None:
    for option, status in (("allow_always", "completed"), ("reject_always", "rejected")):
        kept = Kept()
        async with editing(kept.agent) as editor:
            editor.client.answer(PERMISSION, selected(option))
            first, second = await editor.open(), await editor.open()
            await editor.ask(first)
            await editor.ask(first)
            assert len(editor.asked(PERMISSION)) == 1
            assert kept.status == status
            await editor.ask(second)
            assert len(editor.asked(PERMISSION)) == 2


@pytest.mark.parametrize("option", ["allow_once", "reject_once"])
async def test_a_decision_for_this_time_is_asked_for_again_the_next_time(option: str) -> None:
    kept = Kept()
    async with editing(kept.agent) as editor:
        editor.client.answer(PERMISSION, selected(option))
        session = await editor.open()
        for asked in (1, 2):
            await editor.ask(session)
            assert len(editor.asked(PERMISSION)) == asked


async def test_an_author_can_keep_decisions_longer() -> None:
    class Store:
        def __init__(self) -> None:
            self.decisions: dict[str, bool] = {}

        async def get(self, session: Session, tool: str) -> bool | None:
            return self.decisions.get(tool)

        async def put(self, session: Session, tool: str, allowed: bool) -> None:
            self.decisions[tool] = allowed

    store = Store()
    kept = Kept(Agent("a", approvals=store))
    async with editing(kept.agent) as editor:
        editor.client.answer(PERMISSION, selected("allow_always"))
        await editor.ask(await editor.open())
        await editor.ask(await editor.open())
        assert len(editor.asked(PERMISSION)) == 1
    assert (store.decisions, kept.ran) == ({"touch": True}, 2)


async def test_a_store_of_decisions_that_fails_means_asking(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def get(self, session: Session, tool: str) -> bool | None:
            raise OSError

        async def put(self, session: Session, tool: str, allowed: bool) -> None:
            raise OSError

    kept = Kept(Agent("a", approvals=Broken()))
    async with editing(kept.agent) as editor:
        editor.client.answer(PERMISSION, selected("allow_always"))
        session = await editor.open()
        await editor.ask(session)
        await editor.ask(session)
        assert len(editor.asked(PERMISSION)) == 2
    assert kept.ran == 2
    assert len(caplog.records) == 4


async def _asked(editor: Editor, session: str, *texts: str) -> list[int]:
    counts: list[int] = []
    for text in texts:
        before = len(editor.asked(PERMISSION))
        await editor.answer(await editor.prompt(session, text))
        counts.append(len(editor.asked(PERMISSION)) - before)
    return counts


def _calling(**options: Any) -> Agent:
    """An agent with a tool that is called with the text of each prompt."""
    agent = Agent("a")

    @agent.tool(approval=True, **options)
    async def visit(place: str) -> None:
        "Go there."

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.run_tool(visit, {"place": turn.text})

    return agent


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({}, "all calls of visit"),
        ({"approval_key": "journeys"}, "all calls of visit for journeys"),
        ({"approval_key": Always("journeys", "every\njourney\u202e")}, "every\\njourney\\u202e"),
        ({"approval_key": lambda place: Always(f"visit {place}", "this place")}, "this place"),
        ({"approval_key": lambda place: f"visit {place}"}, "all calls of visit for visit rome"),
    ],
)
async def test_the_label_says_what_always_covers(options: dict[str, Any], label: str) -> None:
    async with editing(_calling(**options)) as editor:
        editor.client.answer(PERMISSION, selected("allow_once"))
        await _asked(editor, await editor.open(), "rome")
        names = {option["kind"]: option["name"] for option in editor.client.all(PERMISSION)[0]["params"]["options"]}
        assert names["allow_always"] == f"Allow, always in this session: {label}"
        assert names["reject_always"] == f"Reject, always in this session: {label}"


async def test_a_key_that_is_made_from_the_arguments_covers_the_calls_with_the_same() -> None:
    def key(place: str, call: ToolContext) -> str | None:
        return None if place == "moscow" else f"{call.name} {place}"

    async with editing(_calling(approval_key=key, auto_approve=True)) as editor:
        editor.client.answer(PERMISSION, selected("allow_always"))
        session = await editor.open()
        assert await _asked(editor, session, "rome", "rome", "paris", "rome") == [1, 0, 1, 0]
        editor.client.answer(PERMISSION, selected("allow_once"))
        # What has no key is asked about each time, and is offered for this time alone.
        assert await _asked(editor, session, "moscow", "moscow") == [1, 1]
        options = editor.client.all(PERMISSION)[-1]["params"]["options"]
        assert [option["kind"] for option in options] == ["allow_once", "reject_once"]


@pytest.mark.parametrize("key", [lambda place: 1 / 0, lambda place: 7])
async def test_a_key_that_cannot_be_made_means_that_nothing_runs(key: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with editing(_calling(approval_key=key)) as editor:
        assert await _asked(editor, await editor.open(), "rome") == [0]
    assert "the approval request of visit failed, so the tool is not run" in caplog.text
    caplog.clear()


async def test_a_decision_is_not_taken_along_to_another_directory() -> None:
    async with editing(_calling()) as editor:
        editor.client.answer(PERMISSION, selected("allow_always"))
        session = await editor.open()
        assert await _asked(editor, session, "rome", "rome") == [1, 0]
        await editor.client.result("session/load", {"sessionId": session, "cwd": "/elsewhere", "mcpServers": []})
        assert await _asked(editor, session, "rome") == [1]
