"""A long session that is loaded: the work and the memory for it are bounded, and other sessions go on meanwhile."""

import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import acp_server
from acp_server import Agent, SqliteStore, Turn
from acp_server.store.records import SessionRecord, TurnRecord
from acp_server.testing import memory_pair
from tests.store.records import end, say

pytestmark = pytest.mark.anyio

MOST_CALLS = 13
"""Calls of the package for one update of a replay."""

PACKAGE = str(Path(acp_server.__file__).parent)


def agent(path: Path) -> Agent:
    agent = Agent("long", store=SqliteStore(path))

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return "here"

    return agent


async def fill(path: Path, id: str, turns: int, pieces: int) -> None:
    """Store a session of `turns` turns, each with `pieces` texts and as many tool calls."""
    record = SessionRecord(id, "/project")
    for number in range(turns):
        turn = TurnRecord([{"type": "text", "text": f"prompt {number}"}])
        for each in range(pieces):
            say(turn, "agent_message_chunk", f"piece {each} of the text")
            turn.add(_call(f"{number}-{each}"))
        end(turn)
        record.turns.append(turn)
    pending = SqliteStore(path).save(record)
    if pending is not None:
        await pending


def _call(id: str) -> dict[str, Any]:
    content = [{"type": "content", "content": {"type": "text", "text": "a line of the file"}}]
    return {"sessionUpdate": "tool_call", "toolCallId": id, "title": "Read", "status": "completed", "content": content}


def request(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


async def converse(agent: Agent, lines: list[bytes], on_line: Callable[[bytes], None]) -> None:
    """Send each line when the one before is answered, and pass every line of the agent on; keep none."""
    here, there = memory_pair()
    connection = agent.connect(there)
    async with anyio.create_task_group() as group:
        group.start_soon(connection.run)
        rest = b""
        for line in lines:
            here.send_nowait(line)
            waiting = {json.loads(each)["id"] for each in line.splitlines()}
            while waiting:
                *whole, rest = (rest + await here.receive()).split(b"\n")
                for each in whole:
                    on_line(each)
                    if b'"method":' not in each:
                        waiting.discard(json.loads(each)["id"])
        await here.aclose()


HELLO = request(0, "initialize", protocolVersion=1, clientCapabilities={})
LOAD = request(1, "session/load", sessionId="long", cwd="/project", mcpServers=[])


async def test_the_first_token_of_another_session_does_not_wait_for_a_replay(tmp_path: Path) -> None:
    await fill(tmp_path / "store.db", "long", 1, 4000)
    await fill(tmp_path / "store.db", "other", 1, 1)
    resume = request(2, "session/resume", sessionId="other", cwd="/project", mcpServers=[])
    prompt = request(3, "session/prompt", sessionId="other", prompt=[{"type": "text", "text": "go"}])
    lines: list[bytes] = []
    await converse(agent(tmp_path / "store.db"), [HELLO, resume, LOAD + prompt], lines.append)
    token = next(index for index, line in enumerate(lines) if b'"here"' in line)
    replayed = [index for index, line in enumerate(lines) if b'"long"' in line]
    assert len(replayed) > 8000
    assert sum(index < token for index in replayed) < len(replayed) / 4


async def test_the_memory_for_a_replay_is_that_of_the_stored_session(tmp_path: Path) -> None:
    peaks: list[int] = []
    for turns in (20, 80):
        await fill(path := tmp_path / f"{turns}.db", "long", turns, 100)
        lines: Counter[bool] = Counter()
        tracemalloc.start()
        try:
            await converse(agent(path), [HELLO, LOAD], lambda line, lines=lines: lines.update([b'"method":' in line]))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert lines[True] > turns * 200
    assert peaks[1] - peaks[0] < 60 * 200 * 200, "more than the stored JSON of an update"


async def test_the_work_for_a_replay_grows_with_its_updates_and_no_faster(tmp_path: Path) -> None:
    counts: list[int] = []
    for turns in (20, 80):
        await fill(path := tmp_path / f"{turns}.db", "long", turns, 50)
        calls = 0

        def count(frame: Any, event: str, _arg: Any) -> None:
            nonlocal calls
            calls += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

        sys.setprofile(count)
        try:
            await converse(agent(path), [HELLO, LOAD], lambda _: None)
        finally:
            sys.setprofile(None)
        counts.append(calls)
    each = (counts[1] - counts[0]) / (60 * 100)
    assert each < MOST_CALLS
