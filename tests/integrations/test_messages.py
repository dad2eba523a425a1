"""What was said in a session, with its tool calls, in the shapes that the APIs of models take."""

import json
from typing import Any

import pytest

from acp_server import Agent, ToolContext, Turn
from acp_server.integrations.messages import anthropic_messages, openai_messages
from acp_server.schema import TextContent, ToolCall, ToolCallProgress
from acp_server.schema.tool_call import Content
from acp_server.store.history import Message
from tests.session.editor import CANCELLED, END_TURN, editing

pytestmark = pytest.mark.anyio


async def context(*texts: str, **options: bool) -> list[Message]:
    """What the last of these turns sees."""
    agent = Agent("talks")
    seen: list[list[Message]] = []

    @agent.tool
    async def add(a: int, b: int) -> int:
        "Add."
        return a + b

    @agent.tool
    async def halt(call: ToolContext) -> None:
        "Halt."
        call.on_cancel = lambda: "halfway"
        call.session.cancel()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        seen.append(turn.context(tools=True, **options))
        await turn.say("Let me ")
        await turn.say("see.")
        if turn.text == "shown":
            # As an adapter shows what a framework does by itself.
            await turn.update(ToolCall(tool_call_id="s1", title="look", name="look", raw_input={"at": "a"}))
            await turn.update(ToolCall(tool_call_id="s2", title="a step of the author's"))
            done = Content(content=TextContent(text="found"))
            await turn.update(ToolCallProgress(tool_call_id="s1", status="completed", content=[done]))
            await turn.update(ToolCall(tool_call_id="s3", title="open", name="open"))
        elif turn.text == "halt":
            await turn.run_tool("halt", {}, id="c1")
        else:
            await turn.run_tool("add", {"a": 1, "b": 2}, id="c1")
            await turn.run_tool("add", {"a": "x"}, id="c1")
        await turn.say("Done.")

    async with editing(agent) as editor:
        session = await editor.open()
        for text in texts:
            assert await editor.ask(session, text) == (CANCELLED if text == "halt" else END_TURN)
    return seen[-1]


async def test_each_call_stands_in_the_message_that_made_it_and_has_its_result() -> None:
    user, said, results, last, _ = await context("add", "next")
    assert (user.role, said.role, results.role, last.role) == ("user", "assistant", "user", "assistant")
    text, first, second = said.content
    assert text == {"type": "text", "text": "Let me see."}
    assert first == {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}
    # The same id again: another call, which the client was shown under an id of its own.
    assert second["id"] != "c1"
    assert [block["toolUseId"] for block in results.content] == ["c1", second["id"]]
    assert [block["isError"] for block in results.content] == [False, True]
    assert results.content[0]["content"] == [{"type": "text", "text": "3"}]
    assert "are invalid" in results.content[1]["content"][0]["text"]
    assert last.content == [{"type": "text", "text": "Done."}]


async def test_calls_that_a_framework_made_by_itself_are_known_from_what_was_shown() -> None:
    _, said, results, _, _ = await context("shown", "next")
    assert [(block["id"], block["input"]) for block in said.content[1:]] == [("s1", {"at": "a"}), ("s3", {})]
    assert [block["content"][0]["text"] for block in results.content] == [
        "found",
        "This call has no result. Its effects are unknown.",
    ]


async def test_a_cancelled_turn_is_no_part_of_it_unless_it_is_asked_for() -> None:
    assert len(await context("halt", "next")) == 1
    _, _, results, *_ = await context("halt", "next", cancelled=True)
    assert results.content[0]["content"] == [{"type": "text", "text": "halfway"}]


async def test_openai_gets_calls_with_arguments_as_text_and_a_message_for_each_result() -> None:
    _, said, first, _, last, user = openai_messages(await context("add", "next"))
    assert said["content"] == "Let me see."
    assert said["tool_calls"][0]["function"]["name"] == "add"
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"a": 1, "b": 2}
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "3"}
    assert (last, user) == ({"role": "assistant", "content": "Done."}, {"role": "user", "content": "next"})


async def test_anthropic_gets_results_first_and_sides_by_turns() -> None:
    messages = anthropic_messages(await context("add", "next"))
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"][1] == {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}
    result, failed = messages[2]["content"]
    assert result == {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "3"}]}
    assert failed["is_error"] is True


IMAGE = {"type": "image", "mimeType": "image/png", "data": "aGk="}
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "Look:"},
    IMAGE,
    {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"},
    {"type": "resource", "resource": {"uri": "file:///b.py", "text": "pass"}},
    {"type": "resource", "resource": {"uri": "file:///c", "blob": "aGk="}},
]
TEXTS = [{"type": "text", "text": "[a.py](file:///a.py)"}, {"type": "text", "text": "file:///b.py:\npass"}]


def test_what_is_not_text_has_the_form_of_each_api() -> None:
    context = [Message("user", [*BLOCKS, {"type": "audio", "mimeType": "audio/wav", "data": "aGk="}])]
    [message] = openai_messages(context)
    assert message["content"] == [
        BLOCKS[0],
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        *TEXTS,
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
    ]
    [message] = anthropic_messages(context)
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert message["content"] == [BLOCKS[0], {"type": "image", "source": source}, *TEXTS]


def test_sides_that_follow_each_other_are_one_for_anthropic_and_a_call_needs_no_text_for_openai() -> None:
    call = {"type": "tool_use", "id": "c", "name": "n", "input": {}}
    result = {"type": "tool_result", "toolUseId": "c", "content": [IMAGE], "isError": False}
    context = [
        Message("assistant", [call]),
        Message("user", [result]),
        Message("user", [{"type": "text", "text": "so"}]),
    ]
    assert [message["content"] for message in openai_messages(context)] == [None, "", "so"]
    _, merged = anthropic_messages(context)
    assert [part["type"] for part in merged["content"]] == ["tool_result", "text"]
