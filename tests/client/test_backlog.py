"""Updates that the program does not take: a turn keeps so many of them, and no gap goes unnoticed."""

import gc
import logging
from typing import Any

import pytest

from acp_server.client import RemoteTurn, UpdatesDropped
from acp_server.client import turn as turn_module
from acp_server.schema import AgentMessageChunk
from tests.client.talking import prompted, said, shown, text

pytestmark = pytest.mark.anyio


async def take_all(turn: RemoteTurn, taken: list[str]) -> None:
    async for update in turn:
        taken.append(text(update))  # noqa: PERF401 - what was taken counts, also if it raises


async def test_updates_that_are_not_taken_are_kept_up_to_a_bound_and_the_iteration_tells_of_the_gap(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turn_module, "UNTAKEN_BYTES", 50_000)
    async with prompted() as (_, peer, turn, prompt):
        await peer.update(*(said(str(n)) for n in range(200)))
        await peer.ask("_no/such")
        taken: list[str] = []
        with pytest.raises(UpdatesDropped) as dropped:
            await take_all(turn, taken)
        assert 15 < len(taken) < 50_000 / turn_module._OVERHEAD + 1
        assert taken == [str(n) for n in range(len(taken))]
        assert dropped.value.count == 200 - len(taken)
        # There would be room again, but there is a gap.
        await peer.update(said("more"))
        await peer.ask("_no/such")
        with pytest.raises(UpdatesDropped, match=f"{201 - len(taken)} updates"):
            await anext(turn)
        await peer.finish(prompt)
        assert (await turn.wait()).stop_reason == "end_turn"
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1


async def test_updates_that_are_taken_in_time_may_be_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_module, "UNTAKEN_BYTES", 50_000)
    async with prompted() as (_, peer, turn, prompt):
        for start in range(0, 200, 10):
            await peer.update(*(said(str(n)) for n in range(start, start + 10)))
            assert [text(await anext(turn)) for _ in range(10)] == [str(n) for n in range(start, start + 10)]
        await peer.finish(prompt)
        assert [update async for update in turn] == []


async def test_a_single_update_may_be_larger_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_module, "UNTAKEN_BYTES", 10_000)
    async with prompted() as (_, peer, turn, prompt):
        answer = {"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "end_turn"}}
        await peer.send(shown(said("x" * 20_000)), answer)
        assert [len(text(update)) async for update in turn] == [20_000]


async def test_updates_that_wait_are_nothing_that_the_garbage_collector_looks_at() -> None:
    async with prompted() as (_, peer, turn, prompt):
        await peer.update(said("first"))
        await peer.ask("_no/such")
        for start in range(0, 1000, 100):
            await peer.update(*(said(str(n)) for n in range(start, start + 100)))
            await peer.ask("_no/such")
        gc.collect()
        assert sum(isinstance(each, AgentMessageChunk) for each in gc.get_objects()) < 10
        await peer.finish(prompt)
        assert [text(update) async for update in turn] == ["first", *map(str, range(1000))]


async def test_an_update_that_has_waited_says_what_it_said_when_it_came() -> None:
    unknown = {"sessionUpdate": "of_tomorrow", "text": "é", "_meta": {"x": 1}}
    unread = {"sessionUpdate": "tool_call", "toolCallId": 7, "of": "tomorrow"}
    updates = [said("first") | {"_meta": {"a": "b"}}, unknown, unread]
    async with prompted() as (_, peer, turn, prompt):
        taken: list[Any] = []
        for update in updates:
            await peer.update(update)
            taken.append(await anext(turn))
        await peer.update(said("in front"), *updates)
        await peer.finish(prompt)
        assert [update async for update in turn][1:] == taken
