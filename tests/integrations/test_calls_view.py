"""What the user sees of a framework's question, in clients that draw the call and only buttons for the question."""

from typing import Any

import pytest

from acp_server import Agent, Turn
from acp_server.integrations.calls_view import CallsView
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio
PERMISSION = "session/request_permission"
SAME = ("toolCallId", "title", "kind", "status", "rawInput", "content")


def asking(*, shown: bool) -> Agent:
    agent = Agent("asking")

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        view = CallsView(turn)
        if shown:
            await view.begin("c1", "touch", {"path": "a"})
        allowed = await view.permit("touch", {"path": "a"})
        await view.end("c1", "done")
        view.close()
        return f"allowed: {allowed}"

    return agent


@pytest.mark.parametrize("shown", [True, False], ids=["of a call", "of no call"])
@pytest.mark.parametrize(
    ("answer", "status", "meta"),
    [
        ({"outcome": "selected", "optionId": "allow_once"}, "completed", None),
        ({"outcome": "selected", "optionId": "reject_once"}, "failed", {"outcome": "rejected"}),
        ({"outcome": "cancelled"}, "failed", {"outcome": "cancelled"}),
    ],
)
async def test_the_call_shows_what_is_asked_before_it_is_asked(
    answer: Any, status: str, meta: Any, shown: bool
) -> None:
    async with editing(asking(shown=shown)) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        question = await editor.client.expect_request(PERMISSION)
        call = question["params"]["toolCall"]
        before = [u for u in editor.client.updates(session) if u.get("toolCallId") == call["toolCallId"]]
        assert before[0]["sessionUpdate"] == "tool_call"
        assert [before[-1][key] for key in SAME] == [call[key] for key in SAME]
        assert (call["kind"], call["locations"]) == ("other", [])
        await editor.client.respond(question, {"outcome": answer})
        assert await editor.answer(prompt) == END_TURN
        calls = [u for u in editor.client.updates(session) if u["sessionUpdate"].startswith("tool_call")]
        assert len({u["toolCallId"] for u in calls}) == 1
        assert (calls[-1]["status"], calls[-1].get("_meta")) == (status, meta)
