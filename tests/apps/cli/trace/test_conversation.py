"""What is nested in what in a recording, and what its cancels cut."""

import pytest

from acp_server.agent.record import Entry
from acp_server.apps.cli.trace.conversation import Conversation
from acp_server.apps.cli.trace.parts import Span

from .recordings import Recording, cancelled_turn


def outline(conversation: Conversation) -> list[str]:
    """The spans, indented by two for each one that they are in."""

    def depth(span: Span) -> int:
        return 0 if span.parent is None else 1 + depth(span.parent)

    return [f"{'  ' * depth(span)}{span.title}: {span.state}" for span in conversation.spans]


def test_what_began_is_nested_as_it_was() -> None:
    assert outline(cancelled_turn().conversation) == [
        "connection: open",
        "  session s: open",
        "    #0 session/new: done",
        "    #1 prompt: run it: cancelled",
        "      Run it: cancelled",
        "        #0 terminal/create: done",
        "        #1 terminal/wait_for_exit: cancelled",
    ]


def test_a_cancel_reaches_what_is_open_below_it_and_others_follow_from_it() -> None:
    first, second = cancelled_turn().conversation.cuts
    assert [span.title for span in first.reached] == ["#1 prompt: run it", "Run it", "#1 terminal/wait_for_exit"]
    assert (first.how, first.because, first.seconds) == ("session/cancel", None, pytest.approx(0.004, abs=1e-6))
    assert [span.title for span in second.reached] == ["#1 terminal/wait_for_exit"]
    assert (second.how, second.because, second.seconds) == ("$/cancel_request", first, pytest.approx(0.001, abs=1e-6))


def test_a_request_that_names_no_tool_call_belongs_to_the_only_one_that_is_open() -> None:
    talk = Recording()
    talk.prompt(1)
    talk.ask("out", 0, "fs/read_text_file", sessionId="s", path="/in/the/turn")
    talk.tool("a", "in_progress")
    talk.ask("out", 1, "fs/read_text_file", sessionId="s", path="/in/a")
    talk.tool("b", "pending")
    talk.ask("out", 2, "fs/read_text_file", sessionId="s", path="/in/one/of/two")
    talk.ask("out", 3, "session/request_permission", sessionId="s", toolCall={"toolCallId": "b", "title": "Ask"})
    talk.tool("a", "completed")
    talk.ask("out", 4, "fs/read_text_file", sessionId="s", path="/in/b")
    spans = {span.title: span for span in talk.conversation.spans}
    within = {title: span.parent.title for title, span in spans.items() if span.dir == "out" and span.parent}
    assert [within[f"#{id} fs/read_text_file"] for id in (0, 1, 2, 4)] == [
        "#1 prompt: hello",
        "a",
        "#1 prompt: hello",
        "Ask",
    ]
    assert within["#3 session/request_permission"] == "Ask"


def test_a_request_without_a_session_belongs_to_the_only_one_that_is_open() -> None:
    talk = Recording()
    talk.ask("in", 1, "_build")
    talk.ask("out", 0, "_look")
    talk.ask("in", 2, "_build")
    talk.ask("out", 1, "_look")
    assert outline(talk.conversation) == [
        "connection: open",
        "  #1 _build: open",
        "    #0 _look: open",
        "  #2 _build: open",
        "  #1 _look: open",
    ]


def test_sessions_and_ids_are_kept_apart() -> None:
    talk = Recording()
    talk.prompt(1, session="a")
    talk.prompt("1", session="b")
    talk.cancel("a")
    talk.ask("out", 1, "fs/read_text_file", sessionId="b", path="/x")
    talk.answer("in", 1)
    talk.answer("out", "1", {"stopReason": "end_turn"})
    talk.answer("out", 1, {"stopReason": "cancelled"})
    conversation = talk.conversation
    assert [cut.target.title for cut in conversation.cuts] == ["#1 prompt: hello"]
    assert outline(conversation)[1:] == [
        "  session a: open",
        "    #1 prompt: hello: cancelled",
        "  session b: open",
        '    #"1" prompt: hello: done',
        "      #1 fs/read_text_file: done",
    ]


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_the_end_of_a_session_cuts_its_turns(method: str) -> None:
    talk = Recording()
    talk.prompt(1)
    talk.ask("in", 2, method, sessionId="s")
    (cut,) = talk.conversation.cuts
    assert (cut.how, cut.target.title) == (method, "#1 prompt: hello")


def test_a_cancel_of_what_is_over_cuts_nothing() -> None:
    talk = Recording()
    talk.prompt(1)
    talk.answer("out", 1)
    talk.cancel()
    talk.withdraw("in", 1)
    talk.withdraw("in", 9)
    assert talk.conversation.cuts == []


def test_each_message_belongs_to_one_span_and_spans_hold_what_is_below_them() -> None:
    conversation = cancelled_turn().conversation
    owners = [conversation.spans[message.owner].title for message in conversation.messages]
    assert owners[:4] == ["#0 session/new", "#0 session/new", "#1 prompt: run it", "Run it"]
    assert owners.count("#1 prompt: run it") == 1 + 20 + 1 + 1  # itself, its updates, its cancel, its answer
    assert [span.number for span in conversation.spans] == list(range(7))


def test_time_does_not_go_back_when_the_clock_does() -> None:
    entries = [Entry(t, "in", {"method": "x"}) for t in (100.0, 105.0, 90.0, 106.0)]
    assert [message.t for message in Conversation(entries).messages] == [0, 5, 5, 6]


def test_what_is_wrong_in_shape_is_taken_as_it_is() -> None:
    odd = [None, 7, [], {}, {"id": 1}, {"method": 3}, {"method": "session/update", "params": [1]}]
    odd += [{"method": "session/update", "params": {"sessionId": "s", "update": value}} for value in (None, 1, {})]
    call = {"sessionUpdate": "tool_call", "toolCallId": [1], "content": [3, {"type": "terminal"}], "title": 5}
    odd += [{"method": "session/update", "params": {"sessionId": "s", "update": call}}]
    odd += [{"id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"text": 3}, "x"]}}]
    odd += [{"id": 2, "method": "session/prompt", "params": {"sessionId": 3}}, {"id": 2, "result": 3}, {"error": 3}]
    odd += [{"method": "$/cancel_request", "params": None}, {"method": "session/cancel"}]
    conversation = Conversation([Entry(0, way, value) for value in odd for way in ("in", "out")])
    assert len(conversation.messages) == 2 * (len(odd) - 1)  # an empty batch has no message
