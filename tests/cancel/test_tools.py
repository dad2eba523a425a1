"""A tool call is cancelled at each point of its life, in each way, whatever sort of function it has."""

from itertools import groupby
from typing import Any

import anyio
import pytest

from acp_server import Limits
from tests.cancel.tool_story import ASSISTANTS, ID, KINDS, POINTS, Story
from tests.session.editor import CALM, CANCELLED, END_TURN, Editor, editing

PERMISSION = "session/request_permission"
READ = "fs/read_text_file"
ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

CUTS = ["tool", "turn", "request", "end of input"]

pytestmark = pytest.mark.anyio


async def cut(cut: str, editor: Editor, session: str, prompt: Any) -> Any:
    """Cancel in this way: what the client is answered, if it asked for it."""
    if cut == "tool":
        return await editor.answer(await editor.client.request("_tool_call/cancel", _named(session)))
    if cut == "turn":
        await editor.cancel(session)
    elif cut == "request":
        await editor.withdraw(prompt)
    else:
        editor.stream.end_input()
    return None


def _named(session: str) -> dict[str, str]:
    return {"sessionId": session, "toolCallId": ID}


def statuses(editor: Editor) -> list[str]:
    """One after the other; updates repeat the status that a call has. A final one is not repeated."""
    all_of_them = [u["status"] for u in editor.client.updates() if u.get("toolCallId") == ID and "status" in u]
    assert sum(status in ("completed", "failed") for status in all_of_them) <= 1
    return [status for status, _ in groupby(all_of_them)]


def finals(editor: Editor) -> list[Any]:
    return [u for u in editor.client.updates() if u.get("toolCallId") == ID and u.get("status") == "failed"]


@pytest.mark.behaviour("F6", "C1", "A1")
@pytest.mark.parametrize("kind", [*KINDS, *ASSISTANTS])
@pytest.mark.parametrize("way", CUTS)
@pytest.mark.parametrize("point", POINTS)
async def test_a_tool_call_ends_with_a_final_status_and_its_prompt_with_one_answer(
    point: str, way: str, kind: str
) -> None:
    story = Story(point, kind)
    story.token = anyio.lowlevel.current_token()
    asked = point in ("waiting for permission", "approved but not started")
    may_finish = (point, way) == ("approved but not started", "end of input")
    async with editing(story.agent(), Limits(drain=5) if may_finish else CALM) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        if point == "pending":
            await story.arrived.wait()
        else:
            request = await editor.client.expect_request(PERMISSION)
            if not asked:
                await editor.client.respond(request, ALLOW)
                if story.asks_for_a_file:
                    await editor.client.expect_request(READ)
                else:
                    await story.arrived.wait()
        outcome: Any = None
        if point == "approved but not started":
            # In one chunk: the yes has arrived, and nothing has been done about it.
            yes = {"jsonrpc": "2.0", "id": request["id"], "result": ALLOW}
            if way == "end of input":
                await editor.client.send(yes)
                editor.client._stream.send_eof()  # pyright: ignore[reportAttributeAccessIssue]
            else:
                no = {
                    "tool": editor.client.new_request("_tool_call/cancel", _named(session), id="cancel"),
                    "turn": editor.cancelling(session),
                    "request": {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": prompt}},
                }[way]
                await editor.client.send(yes, no)
                outcome = await editor.answer("cancel") if way == "tool" else None
        else:
            outcome = await cut(way, editor, session, prompt)
        if point == "waiting for permission" and way != "end of input":
            # A yes that comes too late.
            await editor.client.expect("$/cancel_request")
            await editor.client.respond(request, ALLOW)
        if point == "answered" and way == "tool":
            assert outcome["code"] == -32602
            await editor.cancel(session)
        elif way == "tool":
            assert outcome == {}
        if point == "in cleanup":
            # The client knows before the cleaning up is over.
            await editor.client.expect(lambda m: _status(m) == "failed")
            story.go_on.set()
        answer = await editor.answer(prompt)
        story.release()
        if story.in_thread and "began" in story.effects:
            with anyio.fail_after(5):
                await story.thread_ended.wait()
        if way != "end of input":
            await editor.settled()

    if may_finish:
        # Not a cancel: what was asked for before the end is still done, if it is quick.
        assert statuses(editor) == ["pending", "in_progress", "completed"]
        assert answer == END_TURN
        return

    # Who gets which message.
    if point == "answered":
        assert statuses(editor) == ["pending", "in_progress", "completed"]
    else:
        started = ["in_progress"] if point in ("running", "in cleanup") else []
        assert statuses(editor) == ["pending", *started, "failed"]
        if way != "end of input" and story.words is not None:
            assert [piece["content"]["text"] for piece in finals(editor)[0]["content"]] == [story.words]
    if way == "end of input":
        assert_ended(story, answer)
    elif way == "tool" and point != "answered":
        assert answer == END_TURN
        assert editor.said() == ["cancelled"]
        assert story.result.message == story.words
    else:
        assert answer == CANCELLED
    if way != "end of input":
        waits = {PERMISSION: point == "waiting for permission", READ: story.asks_for_a_file}
        assert len(editor.withdrawn()) == sum(waits.values())

    # No side effect runs after a cancel, and a late yes runs nothing.
    assert "after" not in story.effects
    assert ("began" in story.effects) == (point in ("running", "in cleanup", "answered"))
    received = editor.client.received
    last = max(i for i, m in enumerate(received) if m.get("params", {}).get("update", {}).get("toolCallId"))
    ended = next(i for i, m in enumerate(received) if m.get("id") == prompt and "method" not in m)
    assert last < ended
    assert "too late" not in str(editor.client.received)
    assert "a late word" not in str(editor.client.received)
    assert "/project/late" not in str(editor.client.received)


def assert_ended(story: Story, answer: Any) -> None:
    """At the end of input requests of ours fail at once, and what runs is cancelled a moment later."""
    waiting = story.point == "waiting for permission" or story.asks_for_a_file
    if waiting:
        assert story.result.status == "failed"
        assert answer == END_TURN
    else:
        assert answer["code"] == -32800


def _status(message: Any) -> Any:
    return message.get("params", {}).get("update", {}).get("status")
