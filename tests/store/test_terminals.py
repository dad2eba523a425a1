"""What a replay shows of the terminals of a turn."""

from typing import Any

import pytest

from acp_server.store.history import note
from acp_server.store.records import TurnRecord


def call(*content: dict[str, Any]) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "content": list(content)}


def terminal(id: str) -> dict[str, Any]:
    return {"type": "terminal", "terminalId": id}


def text(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def turn(*updates: dict[str, Any]) -> TurnRecord:
    record = TurnRecord([], most=100_000)
    for update in updates:
        record.add(update)
    return record


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("one\ntwo\n", "~~~\none\ntwo\n~~~"),
        ("\x1b[31mred\x1b[0m\n", "~~~\nred\n~~~"),
        ("~~~~\nx", "~~~~~\n~~~~\nx\n~~~~~"),
    ],
)
def test_a_client_without_the_terminal_is_shown_its_output_as_a_block_of_code(output: str, shown: str) -> None:
    record = turn(call(text("before"), terminal("t"), text("behind")))
    record.add_terminal(note("t", {}, output, {"exitCode": 0}))
    assert list(record.replay()) == [call(text("before"), text(shown), text("behind"))]


@pytest.mark.parametrize("output", [None, ""])
def test_of_a_terminal_whose_output_is_not_known_nothing_is_shown(output: str | None) -> None:
    record = turn(call(terminal("t"), text("behind")))
    record.add_terminal(note("t", {}, output, None))
    assert list(record.replay()) == [call(text("behind"))]


def test_a_terminal_that_the_agent_never_made_stays_as_its_author_has_said_it() -> None:
    record = turn(call(terminal("another")))
    record.add_terminal(note("t", {}, "output", None))
    assert list(record.replay()) == [call(terminal("another"))]


def test_a_client_that_shows_terminals_of_the_agents_is_told_of_it_as_one_that_has_ended() -> None:
    record = turn(call(terminal("t")))
    record.add_terminal(note("t", {"command": "ls", "cwd": "/"}, "out", None))
    told = {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls", "cwd": "/", "exitStatus": {}}
    assert list(record.replay(as_terminals=True)) == [call(terminal("t")), {**told, "output": {"data": "b3V0"}}]


def test_it_is_kept_with_its_turn_and_is_none_of_the_updates() -> None:
    record = turn(call(terminal("t")))
    record.add_terminal(note("t", {}, "out", None))
    again = TurnRecord.restored("turn", record.contents)
    assert list(again.replay()) == [call(text("~~~\nout\n~~~"))]
    assert again.events == [call(terminal("t"))]
    assert again.tool_results == []


def test_output_that_is_too_much_for_its_turn_is_not_kept() -> None:
    record = turn(call(terminal("t")))
    for number in range(100):
        record.add_terminal(note(f"t{number}", {}, "x" * 10_000, None))
    assert len(record.contents) < 110_000


def test_what_outlives_its_turn_is_not_kept() -> None:
    record = turn(call())
    record.pack()
    record.add_terminal(note("t", {}, "late", None))
    assert b"late" not in record.contents
