"""From an agent's updates to the messages of a chat: what is one answer, and what comes between two."""

import pytest

from acp_server.apps.gateway.messages import ChatMessage
from acp_server.apps.gateway.records import Chat, Ids
from acp_server.apps.gateway.reply import Delta, Reply
from acp_server.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Content,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallProgress,
)


def say(text: str, id: str | None = None) -> AgentMessageChunk:
    return AgentMessageChunk(content=TextContent(text=text), message_id=id)


def think(text: str) -> AgentThoughtChunk:
    return AgentThoughtChunk(content=TextContent(text=text))


BEGIN = ToolCall(tool_call_id="t", title="search", status="in_progress")
END = ToolCallProgress(tool_call_id="t", status="completed", content=[Content(content=TextContent(text="2 hits"))])
CALL = ("function_call", '{"name": "search", "arguments": {}}')
RESPONSE = ("tool_response", "2 hits")


class Heard:
    def __init__(self, *updates: SessionUpdate) -> None:
        reply = Reply(Chat("1", "2", "3", "4", "ada"), Ids())
        pieces = [piece for update in updates for piece in reply.take(update)] + reply.close()
        self.kept = [piece for piece in pieces if isinstance(piece, ChatMessage)]
        self.deltas = [piece.wire for piece in pieces if isinstance(piece, Delta)]

    @property
    def messages(self) -> list[tuple[str, str]]:
        return [(message.type, message.content) for message in self.kept]


@pytest.mark.parametrize("id", [None, "m"])
def test_what_is_said_while_a_tool_runs_and_after_it_is_one_answer(id: str | None) -> None:
    heard = Heard(say("I look.", id), BEGIN, say("~~~~\na\n", id), say("b\n", id), END, say("~~~~\n2 hits\n", id))
    assert heard.messages == [("answer", "I look."), CALL, RESPONSE, ("answer", "~~~~\na\nb\n~~~~\n2 hits\n")]
    assert [delta["id"] for delta in heard.deltas] == [heard.kept[0].id] + [heard.kept[3].id] * 3


def test_messages_that_the_agent_tells_apart_are_answers_of_their_own() -> None:
    heard = Heard(BEGIN, say("during", "a"), END, say("after", "b"))
    assert heard.messages == [CALL, RESPONSE, ("answer", "during"), ("answer", "after")]


def test_the_next_tool_parts_two_answers() -> None:
    heard = Heard(BEGIN, say("during"), BEGIN.model_copy(update={"tool_call_id": "u"}), say("after"), END)
    assert heard.messages == [CALL, ("answer", "during"), CALL, RESPONSE, ("answer", "after")]


def test_what_is_thought_while_a_tool_runs_is_thought_before_the_answer_that_follows() -> None:
    heard = Heard(BEGIN, think("hm"), END, say("so"))
    assert heard.messages == [CALL, RESPONSE, ("answer", "so")]
    assert heard.kept[-1].reasoning_content == "hm"


FULL = '{"name": "search", "arguments": {"query": "x"}}'


def mention(raw_input: object = None, id: str = "t") -> ToolCall:
    return ToolCall(tool_call_id=id, title="search", status="pending", raw_input=raw_input)


def more(raw_input: object = None, status: str | None = None) -> ToolCallProgress:
    return ToolCallProgress.from_wire(
        {
            "toolCallId": "t",
            **({} if raw_input is None else {"rawInput": raw_input}),
            **({"status": status} if status else {}),
        }
    )


@pytest.mark.parametrize(
    "updates",
    [
        [mention({}), more({"query": "x"}), more(status="in_progress")],
        [mention({}), more({"que": ""}), more({"query": "x"}), more(status="in_progress")],
        [mention({}), mention({"query": "x"}), more(status="in_progress")],
        [mention({}), more({"query": "x"})],
        [mention({"query": "x"}), more({}), more(status="in_progress")],
    ],
)
def test_a_call_is_told_with_the_input_that_it_has_when_it_is_more_than_pending(updates: list[SessionUpdate]) -> None:
    heard = Heard(*updates, say("then"), END)
    assert heard.messages == [("function_call", FULL), RESPONSE, ("answer", "then")]


def test_a_call_is_told_before_the_question_about_it() -> None:
    reply = Reply(Chat("1", "2", "3", "4", "ada"), Ids())
    assert not [*reply.take(mention({})), *reply.take(more({"query": "x"}))]
    pieces = reply.interrupt([("ask", {})])
    told = [piece.content for piece in pieces if isinstance(piece, ChatMessage)]
    assert told[:2] == [FULL, '{"name": "ask", "arguments": {}}']


def test_a_call_that_never_runs_is_told_at_the_end() -> None:
    reply = Reply(Chat("1", "2", "3", "4", "ada"), Ids())
    reply.take(mention({"query": "x"}))
    assert next(piece.content for piece in reply.finish() if isinstance(piece, ChatMessage)) == FULL


def test_of_many_calls_that_are_mentioned_the_first_are_told() -> None:
    reply = Reply(Chat("1", "2", "3", "4", "ada"), Ids())
    pieces = [piece for number in range(200) for piece in reply.take(mention({"n": number}, f"t{number}"))]
    assert len(pieces) >= 150
