"""What stands out in a conversation."""

import pytest

from acp_server.agent.record import Entry
from acp_server.apps.cli.trace.anomalies import anomalies

from .recordings import Recording, cancelled_turn


def found(talk: Recording, **seconds: float) -> list[tuple[str, str]]:
    return [(one.what, one.span.title) for one in anomalies(talk.conversation, **seconds)]


def test_a_turn_that_was_cancelled_well_has_none() -> None:
    assert found(cancelled_turn()) == []


def test_what_was_never_answered() -> None:
    talk = Recording()
    talk.prompt(1)
    talk.ask("out", 0, "fs/read_text_file", sessionId="s", path="/x")
    assert found(talk) == [("never answered", "#1 prompt: hello"), ("never answered", "#0 fs/read_text_file")]


def test_what_is_answered_twice_or_answers_nothing() -> None:
    talk = Recording()
    talk.ask("in", 1, "initialize")
    talk.answer("out", 1)
    talk.fail("out", 1)
    talk.answer("out", 2)
    talk.answer("in", 1)
    assert found(talk) == [
        ("answered twice", "#1 initialize"),
        ("answers nothing", "connection"),
        ("answers nothing", "connection"),
    ]


def test_an_id_that_is_used_again_too_soon() -> None:
    talk = Recording()
    talk.ask("in", 1, "a")
    talk.ask("in", 1, "b")
    talk.answer("out", 1)
    assert found(talk) == [("never answered", "#1 a"), ("id in use", "#1 b")]


@pytest.mark.parametrize(("seconds", "what"), [(0.5, []), (2, [("answered late", "#1 prompt: hello")])])
def test_a_cancel_that_takes_long(seconds: float, what: list[tuple[str, str]]) -> None:
    talk = Recording()
    talk.prompt(1)
    talk.cancel()
    talk.wait(seconds)
    talk.cancel()
    talk.answer("out", 1, {"stopReason": "cancelled"})
    assert found(talk) == what
    assert found(talk, late=10) == []


def test_a_cancelled_turn_that_goes_on_as_if_nothing_had_happened() -> None:
    talk = Recording()
    for id, seconds in (1, 0.0), (2, 0.5):
        talk.prompt(id)
        talk.cancel()
        talk.wait(seconds)
        talk.answer("out", id, {"stopReason": "end_turn"})
    # The first answer was on its way when the cancel came.
    assert found(talk) == [("not cancelled", "#2 prompt: hello")]


def test_updates_after_the_end_of_their_turn() -> None:
    talk = Recording()
    talk.update()  # before there was a turn
    talk.prompt(1)
    talk.update()
    talk.answer("out", 1, {"stopReason": "end_turn"})
    talk.update("available_commands_update")  # may come at any time
    talk.ask("in", 2, "session/load", sessionId="s")
    talk.update()  # the history
    talk.answer("out", 2)
    assert found(talk) == []
    talk.update()
    talk.tool("late", "completed")
    assert found(talk) == [("update after the end", "session s"), ("update after the end", "late")]


def test_slow_answers_but_not_of_what_waits_for_somebody() -> None:
    talk = Recording()
    talk.prompt(1)
    talk.ask("out", 0, "session/request_permission", sessionId="s", toolCall={"toolCallId": "c"})
    talk.ask("out", 1, "fs/read_text_file", sessionId="s", path="/x")
    talk.wait(6)
    talk.answer("in", 1)
    talk.answer("in", 0)
    talk.tool("c", "completed")
    talk.answer("out", 1, {"stopReason": "end_turn"})
    assert found(talk) == [("slow", "#1 fs/read_text_file")]
    assert found(talk, slow=10) == []


def test_what_is_left_when_its_turn_ends() -> None:
    talk = Recording()
    talk.prompt(1)
    talk.tool("c", "in_progress")
    talk.ask("out", 0, "fs/read_text_file", sessionId="s", path="/x")
    talk.answer("out", 1, {"stopReason": "end_turn"})
    talk.answer("in", 0)
    assert found(talk) == [("left open", "c"), ("outlives its turn", "#0 fs/read_text_file")]


def test_lines_that_are_no_messages() -> None:
    talk = Recording()
    talk.entries += [Entry(1000, "out", raw="hello"), Entry(1000, "out", skipped=9), Entry(1000, "in", 7)]
    assert found(talk) == [("garbage", "connection")] * 3
