"""MCP servers of the official package as tools of a session: over stdio and over HTTP, in the middle of things."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")

from acp_server import Agent, Session, Turn
from tests.client.processes import Ear, gone
from tests.mcp.stage import REAL, call, real, staged
from tests.session.editor import CANCELLED, editing
from tests.tools.kept import PERMISSION, selected, updates

pytestmark = pytest.mark.anyio


def listening(transport: str, ear: Ear) -> subprocess.Popen[bytes]:
    """A server that tells its port."""
    return subprocess.Popen([sys.executable, REAL, transport], env={**os.environ, "EAR": ear.path})


@asynccontextmanager
async def named(transport: str, ear: Ear) -> AsyncGenerator[dict[str, Any]]:
    """A server, as a client names it."""
    if transport in ("stdio", "old"):
        yield real(ear.path, transport)
        return
    process = listening(transport, ear)
    try:
        port, _ = await ear.pids()
        path = {"http": "mcp", "sse": "sse"}[transport]
        yield {"type": transport, "name": "real", "url": f"http://127.0.0.1:{port}/{path}", "headers": []}
    finally:
        process.kill()
        process.wait()


TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "old", "http", "sse"])
"""`old`: a server from before 2026, over stdio. Those over SSE are, too."""


@TRANSPORTS
async def test_its_tools_are_tools_of_the_session_until_that_ends(transport: str, ear: Ear, tmp_path: Path) -> None:
    async with named(transport, ear) as server, staged(tmp_path, server) as (editor, session, stage):
        await call(editor, session)
        assert {"real_add", "real_touch", "real_draw"} <= {*stage.names}
        [described] = [tool for tool in stage.sessions[0].tools.describe() if tool["name"] == "real_add"]
        assert described["description"] == "Add two numbers."
        assert described["input_schema"]["properties"]["a"]["type"] == "integer"
        assert "Add with care." in stage.sessions[0].mcp.instructions
        await call(editor, session, "real_add", a=1, b=2)
        assert stage.told[1] == "3"
        assert stage.results[-1].value == {"result": 3}
        [begun] = [update for update in updates(editor) if update["sessionUpdate"] == "tool_call"]
        assert (begun["title"], begun["kind"], begun["rawInput"]) == ("`real`: `add` (`Add`)", "read", {"a": 1, "b": 2})
        await call(editor, session, "real_add", a="one", b=2)
        assert stage.told[0] == "failed"
        await editor.client.result("session/close", {"sessionId": session})
        assert [server.state for server in stage.sessions[0].mcp] == ["connected"]


@TRANSPORTS
async def test_a_cancel_reaches_the_server_and_what_follows_works(transport: str, ear: Ear, tmp_path: Path) -> None:
    async with named(transport, ear) as server, staged(tmp_path, server) as (editor, session, stage):
        id = await editor.prompt(session, "real_hang")
        assert await ear.line() == "hanging"
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert await ear.line() == "cancelled"
        await call(editor, session, "real_add", a=2, b=2)
        assert stage.told[1] == "4"


async def test_progress_and_images_are_shown_and_failures_are_told_to_the_model(ear: Ear, tmp_path: Path) -> None:
    async with staged(tmp_path, real(ear.path)) as (editor, session, stage):
        await call(editor, session, "real_count")
        shown = json.dumps(updates(editor)[-1])
        assert "number 1 (1/2)" in shown
        assert "number 2 (2/2)" in shown
        await call(editor, session, "real_draw")
        image, text = (part["content"] for part in updates(editor)[-1]["content"])
        assert (image["type"], base64.b64decode(image["data"])) == ("image", b"dot")
        assert text["text"] == stage.told[1] == "a dot:\n[image, image/png: shown to the user]"
        await call(editor, session, "real_fail")
        assert stage.told[0] == "failed"
        assert stage.told[1] == "Error executing tool fail"


async def test_a_tool_that_does_not_only_read_asks_once_and_for_all(ear: Ear, tmp_path: Path) -> None:
    async with staged(tmp_path, real(ear.path)) as (editor, session, stage):
        editor.client.answer(PERMISSION, selected("allow_always"))
        for path in ("a", "b"):
            await call(editor, session, "real_touch", path=path)
            assert stage.told == ("completed", f"touched {path}")
        [asked] = editor.client.all(PERMISSION)
        assert asked["params"]["toolCall"]["rawInput"] == {"path": "a"}
        [(key, allowed)] = stage.sessions[0].approvals.items()
        assert (key.startswith("mcp/real/touch/"), allowed) == (True, True)
        [label] = [option["name"] for option in asked["params"]["options"] if option["kind"] == "allow_always"]
        assert label.endswith(": all calls of `touch` of `real`, as long as its description stays the same")


@pytest.mark.parametrize(
    ("trusted", "asked", "kind"), [((), 1, "other"), (("else",), 1, "other"), (("real",), 0, "read")]
)
async def test_that_a_tool_only_reads_is_believed_of_servers_that_were_named(
    trusted: tuple[str, ...], asked: int, kind: str, ear: Ear, tmp_path: Path
) -> None:
    agent = Agent("staged", mcp=True, mcp_trusted=trusted)
    async with staged(tmp_path, real(ear.path), agent=agent) as (editor, session, stage):
        editor.client.answer(PERMISSION, selected("allow_once"))
        await call(editor, session, "real_add", a=1, b=2)
        assert stage.told == ("completed", "3")
        assert len(editor.client.all(PERMISSION)) == asked
        [begun] = [update for update in updates(editor) if update["sessionUpdate"] == "tool_call"]
        assert begun["kind"] == kind


@pytest.mark.parametrize(("approval", "asked"), [(True, 2), (False, 0), (lambda _, tool: tool.name == "add", 1)])
async def test_the_author_says_which_tools_ask(approval: Any, asked: int, ear: Ear, tmp_path: Path) -> None:
    agent = Agent("asks")

    @agent.session
    async def connect(session: Session) -> None:
        await session.mcp.connect(approval=approval)
        await session.mcp.ready()

    async with staged(tmp_path, real(ear.path), agent=agent) as (editor, session, stage):
        editor.client.answer(PERMISSION, selected("allow_once"))
        await call(editor, session, "real_add", a=1, b=1)
        await call(editor, session, "real_touch", path="a")
        assert [result.status for result in stage.results] == ["completed", "completed"]
        assert len(editor.client.all(PERMISSION)) == asked


@TRANSPORTS
async def test_a_tool_that_the_server_adds_is_offered(transport: str, ear: Ear, tmp_path: Path) -> None:
    async with named(transport, ear) as server, staged(tmp_path, server) as (editor, session, stage):
        await call(editor, session, "real_grow")
        assert stage.told == ("completed", "more")
        with anyio.fail_after(10):
            while "real_grown" not in stage.names:
                await anyio.lowlevel.checkpoint()
        await call(editor, session, "real_grown")
        assert stage.told[1] == "grown"


@TRANSPORTS
async def test_what_a_server_asks_is_asked_by_the_client(transport: str, ear: Ear, tmp_path: Path) -> None:
    async with named(transport, ear) as server, staged(tmp_path, server) as (editor, session, stage):
        editor.client.answer("elicitation/create", {"action": "accept", "content": {"name": "Ada"}})
        await call(editor, session, "real_ask")
        assert stage.told[1] == "accept: name='Ada'"
        [asked] = editor.client.all("elicitation/create")
        assert asked["params"]["message"] == "real: Who are you?"
        assert asked["params"]["toolCallId"] == updates(editor)[-1]["toolCallId"]
        assert asked["params"]["requestedSchema"]["properties"]["name"]["type"] == "string"


@pytest.mark.parametrize("era", ["new", "old"])
async def test_a_question_is_withdrawn_with_the_call_that_it_belongs_to(era: str, ear: Ear, tmp_path: Path) -> None:
    async with staged(tmp_path, real(ear.path, era)) as (editor, session, _):
        id = await editor.prompt(session, "real_ask")
        asked = await editor.client.expect_request("elicitation/create")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        await editor.client.expect("$/cancel_request")
        assert editor.withdrawn() == [asked["id"]]


async def test_a_client_that_cannot_ask_is_not_asked(ear: Ear, tmp_path: Path) -> None:
    async with staged(tmp_path, real(ear.path), capabilities={}) as (editor, session, stage):
        await call(editor, session, "real_ask")
        assert stage.told[0] == "failed"
        assert editor.asked() == []


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_that_is_killed_fails_its_calls_and_nothing_else(
    transport: str, ear: Ear, tmp_path: Path
) -> None:
    if transport == "stdio":
        server = real(ear.path, "child")
    else:
        process = listening("http", ear)
        port, pid = await ear.pids()
        server = {"type": "http", "name": "real", "url": f"http://127.0.0.1:{port}/mcp", "headers": []}
    async with staged(tmp_path, server, real(ear.path, name="other")) as (editor, session, stage):
        if transport == "stdio":
            pid, child = await ear.pids()
        id = await editor.prompt(session, "real_hang")
        assert await ear.line() == "hanging"
        os.kill(pid, signal.SIGKILL)
        assert (await editor.answer(id))["stopReason"] == "end_turn"
        assert stage.told[0] == "failed"
        assert "real" in (stage.told[1] or "")
        await call(editor, session, "other_add", a=1, b=1)
        assert stage.told[1] == "2"
        # Over HTTP it is noticed by the next call at the latest.
        await call(editor, session, "real_add", a=1, b=1)
        assert stage.told[0] == "failed"
        await editor.client.expect(lambda m: "notice" in str(m) and "real cannot be used" in str(m))
        assert [server.state for server in stage.sessions[0].mcp] == ["failed", "connected"]
        if transport == "stdio":
            gone(child)
    if transport == "http":
        process.wait()


async def test_two_sessions_have_servers_of_the_same_name_for_themselves(ear: Ear, tmp_path: Path) -> None:
    async with staged(tmp_path, real(ear.path, "child")) as (editor, first, stage):
        processes = [*await ear.pids()]
        second = await editor.open(str(tmp_path), mcpServers=[real(ear.path, "child")])
        processes += await ear.pids()
        await call(editor, first, "real_grow")
        await call(editor, second, "real_add", a=1, b=1)
        assert "real_grown" not in stage.names
        await editor.client.result("session/close", {"sessionId": first})
        gone(*processes[:2])
        await call(editor, second, "real_add", a=1, b=1)
        assert stage.told[1] == "2"
    gone(*processes)


async def test_they_start_when_a_turn_first_waits_for_them(ear: Ear, tmp_path: Path) -> None:
    agent = Agent("late")
    offered: list[list[str]] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.session.mcp.ready(turn)
        offered.append([tool["name"] for tool in turn.session.tools.describe()])

    async with editing(agent) as editor:
        session = await editor.open(cwd=str(tmp_path), mcpServers=[real(ear.path)])
        for _ in range(2):
            await editor.ask(session)
    assert "real_add" in offered[0]
    assert offered[0] == offered[1]
