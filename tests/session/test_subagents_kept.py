"""What is kept of child sessions, and what clients see that do not show any."""

from contextlib import suppress
from typing import Any

import pytest

from acp_server import Turn
from acp_server.schema import AgentMessageChunk, ImageContent, PermissionOption, ToolCallUpdate
from tests.session.children import KINDS, SHOWS, announced, begin, child_of, delegating, end, reviewing, showing, words
from tests.session.editor import Editor, editing
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio
kinds = pytest.mark.parametrize("kind", KINDS)

OPTIONS = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]


@kinds
@pytest.mark.parametrize("kept", [True, False])
async def test_a_replay_has_the_children_in_order_and_nothing_that_only_was_true_then(kind: str, kept: bool) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("one", task="do") as one:
            await one.say("1")
            async with one.subagent("two") as two:
                await two.think("hm")
                await two.say("2")
                await two.run_tool("look")
            await one.say("3")
        await turn.say("4")

    agent = delegating(work, history=kept)
    async with showing(agent, kind) as editor:
        session = await editor.open()
        assert await end(editor, session, await begin(editor, session)) == "end_turn"
        one = await child_of(editor, session, "one")
        two = await child_of(editor, one, "two")
        live = [_shown(editor, each) for each in (one, two)]
        before = len(editor.client.received)
        params = {"sessionId": session, "cwd": "/project"}
        if kind == "version 2":
            await editor.client.result("session/resume", {**params, "replayFrom": {"type": "start"}})
        else:
            await editor.client.result("session/load", {**params, "mcpServers": []})
        del editor.client.received[:before]
        if not kept:
            assert not announced(editor)
            return
        assert [(each["sessionId"], "state" in each) for each in announced(editor)] == [
            (one, False),
            (two, False),
            (two, True),
            (one, True),
        ]
        assert not any("capabilities" in each for each in announced(editor))
        assert [_shown(editor, each) for each in (one, two)] == live
        ids = [message["params"]["sessionId"] for message in editor.client.received if "method" in message]
        assert ids.index(one) < ids.index(two)
        assert "result" in editor.client.received[-1] or kind == "version 2"


def _shown(editor: Editor, session: str) -> tuple[str, str, list[Any]]:
    """What a session shows: what was said and thought, and its tool calls by their last status."""
    calls = {each["toolCallId"]: each.get("status") for each in editor.client.updates(session) if "toolCallId" in each}
    thoughts = "".join(editor.said(session, "agent_thought_chunk"))
    return words(editor, session), thoughts, sorted(calls.items())


async def test_a_fork_has_children_of_its_own(anyio_backend_name: str) -> None:
    agent = delegating(reviewing, unstable={"subagents", "fork"})
    params = {"cwd": "/project", "mcpServers": []}
    async with showing(agent, "version 1") as editor:
        session = await editor.open()
        await editor.ask(session)
        child = await child_of(editor, session, "Reviewer")
        copy = (await editor.client.result("session/fork", {"sessionId": session, **params}))["sessionId"]
        await editor.client.result("session/load", {"sessionId": copy, **params})
        other = await child_of(editor, copy, "Reviewer")
        assert other != child
        assert words(editor, other) == "inside"


@pytest.mark.parametrize("kind", ["version 1", "not shown", "version 2 without the feature"])
async def test_another_client_gets_one_tool_call_with_what_the_child_says(kind: str) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("one", task="do") as one:
            await one.say("inside")
            await one.think("unsaid")
            await one.plan(["a step of its own"])
            await one.update(AgentMessageChunk(content=ImageContent(data="aGk=", mime_type="image/png")))
            await one.run_tool("look", id="its")
            async with one.subagent("two") as two:
                await two.say("deeper")
            answer = await one.client.request_permission(ToolCallUpdate(tool_call_id="its", title="Do it?"), OPTIONS)
            await one.say(f" {bool(answer)}")
            one.add_usage(input_tokens=3, output_tokens=4)
        with suppress(ValueError):
            async with turn.subagent("bad"):
                raise ValueError
        turn.add_usage(input_tokens=1, output_tokens=1)

    agent = delegating(work, () if kind != "version 1" else ("subagents",))
    version_2 = kind.startswith("version 2")
    async with (
        v2.editing(agent) if version_2 else editing(agent, capabilities=None if kind == "version 1" else SHOWS) as e
    ):
        editor: Editor = e
        session = await editor.open()
        id = await begin(editor, session)
        question = await editor.client.expect_request("session/request_permission")
        assert question["params"]["sessionId"] == session
        await editor.client.respond(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        assert await end(editor, session, id) == "end_turn"
        live = _calls(editor)
        assert live["one"] == ("completed", "<image>inside True")
        assert live["two"] == ("completed", "deeper")
        assert live["look"] == ("completed", "seen")
        assert live["bad"] == ("failed", "[failed: Internal error: the agent's log says why]")
        ids = {message["params"]["sessionId"] for message in editor.client.received if "method" in message}
        assert ids == {session}
        usage = next(each for message in editor.client.received for each in _usages(message))
        assert usage == {"totalTokens": 9, "inputTokens": 4, "outputTokens": 5}
        kinds_seen = {each["sessionUpdate"] for each in editor.client.updates()}
        assert not kinds_seen & {"subagent_update", "session_message", "agent_thought_chunk", "plan", "plan_update"}
        assert words(editor, session) == ""
        before = len(editor.client.received)
        params = {"sessionId": session, "cwd": "/project"}
        if version_2:
            await editor.client.result("session/resume", {**params, "replayFrom": {"type": "start"}})
        else:
            await editor.client.result("session/load", {**params, "mcpServers": []})
        del editor.client.received[:before]
        assert _calls(editor) == live


def _usages(message: dict[str, Any]) -> list[dict[str, int]]:
    """What a turn has cost, where its end is told."""
    ends = (message.get("result", {}), message.get("params", {}).get("update", {}))
    return [each["_meta"]["usage"] for each in ends if "usage" in each.get("_meta", {})]


def _calls(editor: Editor) -> dict[str, tuple[str, str]]:
    """By title: the last status of each tool call, and its text."""
    calls: dict[str, dict[str, Any]] = {}
    for update in editor.client.updates():
        if "toolCallId" in update:
            calls.setdefault(update["toolCallId"], {}).update(update)
    texts = {
        id: "".join(piece["content"].get("text", "<image>") for piece in call.get("content", ()))
        for id, call in calls.items()
    }
    return {call["title"]: (call["status"], texts[id]) for id, call in calls.items()}
