"""The calls of a turn by their two ids: found in one step, however many run."""

from time import process_time
from types import SimpleNamespace
from typing import Any

from acp_server.tools.session_tools import Calls


def call(id: str, given: str) -> Any:
    return SimpleNamespace(call=SimpleNamespace(id=id, given=given))


def test_a_call_is_found_by_either_id_while_it_runs_and_shown_by_its_own_only() -> None:
    calls = Calls()
    one = call("call_1", "a")
    calls.add(one)
    assert calls.get("call_1") is calls.get("a") is calls.by_tool_call_id("call_1") is one
    assert calls.by_tool_call_id("a") is None
    assert calls.each() == [one]
    calls.remove(one)
    assert calls.get("call_1") is calls.get("a") is None
    assert not calls


def test_calls_may_end_while_all_of_them_are_gone_through() -> None:
    calls = Calls()
    for number in range(3):
        calls.add(call(f"c{number}", f"c{number}"))
    seen: list[str] = []
    for one in calls.each():
        seen.append(one.call.id)
        calls.remove(one)
    assert seen == ["c0", "c1", "c2"]


def _cost(count: int) -> float:
    """CPU seconds for each of so many calls that run at once."""
    calls = Calls()
    start = process_time()
    for number in range(count):
        id = f"c{number}"
        assert calls.get(id) is None
        calls.add(call(f"call_{number}", id))
    return (process_time() - start) / count


def test_a_call_costs_the_same_however_many_run() -> None:
    few = min(_cost(100) for _ in range(5))
    assert min(_cost(5_000) for _ in range(2)) < 5 * few
