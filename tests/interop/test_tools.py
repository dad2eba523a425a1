"""Tools as users of the official SDKs' clients meet them: why one runs unasked, and what a cancelled one had found."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from .editor import Editor, attached
from .subjects import remembering
from .test_official_python_client import ask, opened
from .typescript import drive

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
WHY = "It writes numbers as figures, as you wished."
BEFORE, AFTER = "first line\nsecond line\n", "first line\n2nd line\n"
PARTIAL = "Cancelled by the user. Partial results: bees in books"
RECALLED = f"search bees\nSearching. \nsearch: {PARTIAL}\nrecall"


@pytest.fixture
def anyio_backend() -> str:
    """The SDK's client runs on asyncio alone; our agents run on both."""
    return "asyncio"


def assert_explained(calls: list[dict[str, Any]], project: Path) -> None:
    """By the updates of one tool call, the user was shown what will happen, and why, before it did, and still has it at
    the end."""
    statuses = [call.get("status") for call in calls]
    assert (statuses[0], statuses[-1]) == ("pending", "completed")
    before = calls[: statuses.index("completed")]
    assert "Change notes.txt" in [call.get("title") for call in before]
    diff = {"type": "diff", "path": str(project / "notes.txt"), "oldText": BEFORE, "newText": AFTER}
    for call in (max(before, key=lambda call: len(call.get("content") or ())), calls[-1]):
        change, words = call["content"][:2]
        assert words == {"type": "content", "content": {"type": "text", "text": WHY}}
        assert change == diff
    assert (project / "notes.txt").read_text() == AFTER


@pytest.mark.anyio
class TestPython:
    """The client on the official Python SDK."""

    @BACKENDS
    async def test_an_edit_that_is_approved_automatically_shows_what_it_would_have_asked(
        self, backend: str, project: Path
    ) -> None:
        editor = Editor()
        async with attached(editor, remembering(backend)) as connection:
            session = await opened(connection, project)
            await connection.set_config_option(session_id=session, config_id="auto_approve", value="on")
            answer = await ask(connection, session, "edit")
            assert (answer.stop_reason, editor.said[session]) == ("end_turn", "completed")
            calls = [update for update in editor.updates[session] if hasattr(update, "tool_call_id")]
        assert editor.questions == []
        assert_explained([call.model_dump(mode="json", by_alias=True, exclude_none=True) for call in calls], project)

    @BACKENDS
    async def test_what_a_cancelled_search_had_found_is_context_of_the_next_turn_if_the_author_wants_it(
        self, backend: str, project: Path
    ) -> None:
        editor = Editor()
        async with attached(editor, remembering(backend)) as connection:
            session = await opened(connection, project)
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(ask(connection, session, "search bees"))
                await editor.reached("agent_message_chunk")
                await connection.cancel(session_id=session)
            assert (turn.result().stop_reason, editor.said.pop(session)) == ("cancelled", "Searching. ")
            last = [update for update in editor.updates[session] if hasattr(update, "tool_call_id")][-1]
            assert (last.status, last.content[-1].content.text) == ("failed", PARTIAL)
            await ask(connection, session, "recall")
            assert editor.said.pop(session) == RECALLED
            await ask(connection, session, "forget")
            assert PARTIAL not in editor.said[session].replace(RECALLED, "")
            assert editor.said[session].endswith("\nforget")


@pytest.mark.usefixtures("require_npm")
class TestTypeScript:
    """The client on the official TypeScript SDK."""

    @BACKENDS
    def test_an_edit_that_is_approved_automatically_shows_what_it_would_have_asked(
        self, backend: str, project: Path
    ) -> None:
        run = drive(remembering(backend), project, [{"text": "edit"}], settings={"auto_approve": "on"})
        assert [(end.stop_reason, end.said) for end in run.turns()] == [("end_turn", "completed")]
        assert run.received("session/request_permission") == []
        assert_explained([*run.updates("tool_call"), *run.updates("tool_call_update")], project)

    @BACKENDS
    @pytest.mark.parametrize("by", ["session/cancel", "signal"])
    def test_what_a_cancelled_search_had_found_is_context_of_the_next_turn_if_the_author_wants_it(
        self, backend: str, by: str, project: Path
    ) -> None:
        cut = {"text": "search bees", "cancelOn": "agent_message_chunk", "cancelBy": by}
        run = drive(remembering(backend), project, [cut, {"text": "recall"}, {"text": "forget"}])
        search, recall, forget = run.turns()
        assert (search.stop_reason, search.said) == ("cancelled", "Searching. ")
        last = run.updates("tool_call_update")[-1]
        assert (last["status"], last["content"][-1]["content"]["text"]) == ("failed", PARTIAL)
        assert recall.said == RECALLED
        assert PARTIAL not in forget.said.replace(RECALLED, "")
