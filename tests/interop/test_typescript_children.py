"""The official TypeScript SDK's unstable clients show the child sessions of our agent, and cancel one of a hundred."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .agents.delegating import CHILDREN
from .subjects import assert_quiet, delegating
from .typescript import observed

pytestmark = pytest.mark.usefixtures("require_npm")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("version", [1, 2])
def test_one_of_a_hundred_children_is_cancelled_and_the_others_end(version: int, backend: str, tmp_path: Path) -> None:
    plan = {"cwd": str(tmp_path), "version": version}
    observations, stderr = observed("children", plan, delegating(backend))
    assert_quiet(stderr)
    # The SDK drops what its schema does not know, with a line of its own.
    assert "nvalid" not in stderr, stderr

    updates = [one for one in observations if one["event"] == "update"]
    told = [one["update"] for one in updates if one["update"]["sessionUpdate"] == "subagent_update"]
    titles = {update["sessionId"]: update["title"] for update in told if "title" in update}
    assert sorted(titles.values()) == sorted(f"child {number}" for number in range(CHILDREN))
    (asked,) = [one["sessionId"] for one in observations if one["event"] == "asked"]
    assert titles[asked] == f"child {CHILDREN // 2}"

    ends = {update["sessionId"]: update["state"] for update in told if update.get("capabilities", ()) is None}
    assert ends.pop(asked) == {"state": "idle", "stopReason": "cancelled"}
    assert Counter(state["stopReason"] for state in ends.values()) == {"end_turn": CHILDREN - 1}
    assert {said(updates, child) for child in titles} == {f"I am {number}. " for number in range(CHILDREN)}
    (ended,) = [one for one in observations if one["event"] == "ended"]
    assert said(updates, ended["sessionId"]) == f"{CHILDREN} ended, 1 cancelled"


def said(updates: list[dict[str, Any]], session: str) -> str:
    """The text of one session."""
    return "".join(
        one["update"]["content"]["text"]
        for one in updates
        if one["sessionId"] == session and one["update"]["sessionUpdate"] == "agent_message_chunk"
    )
