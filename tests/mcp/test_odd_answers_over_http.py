"""Odd answers of real MCP servers over HTTP, by each of its ways: a call ends and says why, and the next one works."""

import json
import logging
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")

from tests.mcp.over_http import Way, odd_server
from tests.mcp.stage import call, staged
from tests.mcp.test_answers import ODD
from tests.mcp.test_odd_servers import impatient, reported

# The official package leaves generators of its HTTP library behind, of which trio warns.
GENERATOR = "ignore:Async generator 'http:ResourceWarning"
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings(GENERATOR)]

WAYS = get_args(Way)
UNREAD = "refused: the response cannot be read: it is not valid in MCP"
UNKNOWN = "refused: the response cannot be read: it does not name its request"
# What is told of an answer by each way, where that is not the same as over stdio.
STREAMABLE: dict[str, dict[Way, str]] = {
    **{name: {"json": UNREAD, "events": UNREAD} for name in ODD},
    "not UTF-8": {"json": UNREAD, "events": "cannot be used", "sse": "cannot be used"},
    "the id behind": {"json": UNREAD, "events": "cannot be used", "sse": "cannot be used"},
    # An answer as events is that of the request which it is the response to, whatever its id.
    "the id null": {"json": UNKNOWN, "events": "refused: ?"},
    "another id": {"json": UNKNOWN, "events": "done"},
    "the id as a text": {},
}
EMPTY = b'{"jsonrpc":"2.0","id":"other","result":{"content":[{"type":"text","text":"done"}]}}'


def told(name: str, way: Way) -> str:
    """What the model is told, or a part of it."""
    expected = STREAMABLE[name].get(way, ODD[name][1])
    return "refused." if expected == "error: " else expected.removeprefix("error: ")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ODD)
async def test_a_call_with_an_odd_answer_ends_and_the_next_one_works(name: str, way: Way, tmp_path: Path) -> None:
    line = EMPTY if name == "another id" else ODD[name][0]
    expected = told(name, way)
    with anyio.fail_after(30):
        async with odd_server(way, "tools/call", line) as server, staged(tmp_path, server) as (editor, session, stage):
            for _ in range(2):
                await call(editor, session, "raw_run")
                status, message = stage.told
                if expected in ("done", "\N{REPLACEMENT CHARACTER}"):
                    assert (status, message) == ("completed", expected)
                else:
                    assert status == "failed"
                    assert expected in (message or "")
                    assert "\n" not in (message or "")
            assert [server.state for server in stage.sessions[0].mcp] == ["connected"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize("name", ["error as a text", "no result", "cut short", "not UTF-8"])
async def test_a_server_that_begins_with_an_odd_answer_is_reported(
    name: str, method: str, way: Way, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with (
        odd_server(way, method, ODD[name][0]) as server,
        staged(tmp_path, server, agent=impatient()) as (editor, session, stage),
    ):
        await editor.ask(session, " ")
        await reported(editor)
        [failed] = stage.sessions[0].mcp
        problem: Any = failed.problem
        assert failed.state == "failed"
        assert "\n" not in problem
        assert "validation error" not in problem
    assert f"the MCP server 'raw': {problem}" in caplog.text


TAKES = {"inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
TOOLS: list[dict[str, Any]] = [
    {"name": "endless", **TAKES, "outputSchema": {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}},
    {"name": "bare", **TAKES, "inputSchema": {"properties": {}}},
    {"name": "polite", **TAKES, "annotations": {"readOnlyHint": ["yes"]}},
    {**TAKES},
    {"name": "run", **TAKES},
]


@pytest.mark.parametrize("way", WAYS)
async def test_an_odd_tool_is_left_out_and_costs_no_other(way: Way, tmp_path: Path) -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": {"tools": TOOLS}}).replace('"ID"', "ID")
    async with (
        odd_server(way, "tools/list", answer.encode()) as server,
        staged(tmp_path, server) as (editor, session, stage),
    ):
        await call(editor, session)
        assert stage.names == ["raw_endless", "raw_polite", "raw_run"]


PARTS = [{"type": "text", "text": "done"}, {"type": "hologram", "data": "?"}]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("more", [{}, {"isError": None}], ids=["content", "isError"])
async def test_an_odd_part_of_a_result_leaves_its_text(more: dict[str, Any], way: Way, tmp_path: Path) -> None:
    result = {"content": PARTS, **more}
    answer = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": result}).replace('"ID"', "ID")
    async with (
        odd_server(way, "tools/call", answer.encode()) as server,
        staged(tmp_path, server) as (editor, session, stage),
    ):
        await call(editor, session, "raw_run")
        status, message = stage.told
        assert status == "completed"
        assert "done" in (message or "")
