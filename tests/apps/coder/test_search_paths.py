"""A search in several paths: a tool call for each, at the same time, each of which can be cancelled alone."""

from pathlib import Path
from typing import Any

import pytest

from acp_server.apps.coder import search as search_module
from acp_server.apps.coder.walk import files_below
from tests.session.editor import CANCELLED, END_TURN

from .talk import Held, Talk, nothing_worth_a_warning, project, talking
from .trees import plant

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.anyio

QUICK, SLOW = "Search for `needle` in `quick`", "Search for `needle` in `slow`"


@pytest.fixture
def held(project: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """The search in `slow` stops behind its first file."""
    plant(project, {"slow/a.txt": "needle\n", "slow/b.txt": "needle\n", "quick/a.txt": "needle\nneedle\n"})
    slow = Held(after=1)
    monkeypatch.setattr(
        search_module,
        "files_below",
        lambda roots, path: (slow.files_below if path == "slow" else files_below)(roots, path),
    )
    return slow


def by_title(talk: Talk, session: str) -> dict[str, dict[str, Any]]:
    calls: dict[str, dict[str, Any]] = {}
    for update in talk.client.updates(session):
        if update["sessionUpdate"].startswith("tool_call"):
            calls.setdefault(update["toolCallId"], {}).update(update)
    return {call["title"]: call for call in calls.values()}


async def half_way(talk: Talk, project: Path, held: Held) -> tuple[str, int]:
    """A session and its prompt: the search in `quick` is through, the one in `slow` stands behind its first hit."""
    session = await talk.open(str(project))
    id = await talk.prompt(session, "/search needle slow quick")
    await talk.until(lambda: by_title(talk, session).get(QUICK, {}).get("status") == "completed")
    await talk.until(lambda: "locations" in by_title(talk, session)[SLOW])
    await talk.until(held.reached.is_set)
    return session, id


async def test_each_path_has_a_call_and_the_hits_are_one_block(project: Path, held: Held) -> None:
    held.go_on.set()
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/search needle slow quick slow missing")
        assert told.answer == END_TURN
        assert sorted(told.hits) == [
            "quick/a.txt:1:1: needle",
            "quick/a.txt:2:1: needle",
            "slow/a.txt:1:1: needle",
            "slow/b.txt:1:1: needle",
        ]
        assert told.text.endswith(
            "~~~~\n- `slow`: 2 hits in 2 files.\n- `quick`: 2 hits in 1 file.\n- No such file or directory: `missing`\n"
        )
        statuses = {call["title"]: (call["status"], call["rawOutput"]["hits"]) for call in told.calls.values()}
        assert statuses == {
            "Search for `needle` in `slow`": ("completed", 2),
            "Search for `needle` in `quick`": ("completed", 2),
            "Search for `needle` in `missing`": ("failed", 0),
        }


async def test_one_search_that_is_cancelled_alone_keeps_its_hits_and_the_others_go_on(
    project: Path, held: Held
) -> None:
    async with talking() as talk:
        session, id = await half_way(talk, project, held)
        params = {"sessionId": session, "toolCallId": by_title(talk, session)[SLOW]["toolCallId"]}
        assert await talk.client.result("_tool_call/cancel", params) == {}
        told = await talk.told(session, id)
        assert told.answer == END_TURN
        assert "slow/a.txt:1:1: needle" in told.hits
        partial = "Partial results: 1 hit, and 1 file searched to the end, before it was stopped."
        assert told.text.endswith(f"~~~~\n- `slow`: {partial}\n- `quick`: 2 hits in 1 file.\n")
        call = by_title(talk, session)[SLOW]
        assert call["status"] == "failed"
        assert call["content"][-1]["content"]["text"] == partial
        assert call["rawOutput"] == {"hits": 1, "files": 1, "partial": True}
        # It has ended, so it cannot be cancelled any more.
        assert (await talk.refusal("_tool_call/cancel", params))["code"] == -32602


async def test_a_cancelled_turn_says_of_each_search_how_far_it_came(project: Path, held: Held) -> None:
    async with talking() as talk:
        session, id = await half_way(talk, project, held)
        await talk.cancel(session)
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert len(told.hits) == 3
        assert "- `slow`: Partial results: 1 hit, and 1 file searched" in told.text
        assert told.text.endswith("- `quick`: 2 hits in 1 file.\n")
