"""MCP servers that are absent, silent, deaf, greedy or die: each is reported, and holds up nothing."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import psutil
import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")

from acp_server import Agent, Session, Turn, UsageError
from acp_server.mcp.tools import ServerQuestions
from tests.mcp.stage import Staged, call, raw, staged
from tests.session.editor import CANCELLED, END_TURN, Editor, editing
from tests.tools.kept import PERMISSION, selected, updates

pytestmark = pytest.mark.anyio


def impatient(seconds: float = 20) -> Agent:
    """An agent that waits for a server no longer than this."""
    agent = Agent("impatient", mcp=["http", "sse"])

    @agent.session
    async def connect(session: Session) -> None:
        await session.mcp.connect(timeout=seconds)

    return agent


async def reported(editor: Editor, name: str = "raw") -> None:
    """Wait until the user is told that a server has failed."""
    await editor.client.expect(lambda m: "notice" in str(m) and f"The MCP server {name} cannot be used" in str(m))


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (
            {"name": "raw", "command": "/nowhere/server", "args": [], "env": []},
            "the program or its folder does not exist",
        ),
        (raw("good", **{"A=B": "1"}), "its settings contain the invalid environment variable name 'A=B'"),
        (raw("good", **{"A\0": "1"}), "its settings contain the invalid environment variable name 'A\\x00'"),
        (raw("good", A="1\0"), "the environment variable A of its settings contains a NUL character"),
        (raw("go\0od"), "its command contains a NUL character"),
        (raw("absent"), "it has ended with exit status 1"),
        (raw("nonsense"), "its response is not valid in MCP"),
        (raw("silent"), "it did not answer within 0.3 s"),
        (raw("deaf"), "it did not answer within 0.3 s"),
        (
            {"type": "http", "name": "raw", "url": "http://127.0.0.1:1/mcp", "headers": []},
            "it cannot be reached (ConnectError)",
        ),
        (
            {"type": "sse", "name": "raw", "url": "http://127.0.0.1:1/sse", "headers": []},
            "it cannot be reached (ConnectError)",
        ),
    ],
    ids=[
        "nowhere",
        "equals",
        "nul in a name",
        "nul in a value",
        "nul in the command",
        "absent",
        "nonsense",
        "silent",
        "deaf",
        "http",
        "sse",
    ],
)
async def test_one_that_does_not_answer_is_reported_and_holds_up_nothing(
    server: dict[str, Any], problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Only where nothing else ends the wait: a busy machine takes long over a start.
    seconds = 0.3 if "did not answer" in problem else 20
    async with staged(tmp_path, server, agent=impatient(seconds)) as (editor, session, stage):
        # Nobody waits for it here.
        assert await editor.ask(session, " ") == END_TURN
        await reported(editor)
        [failed] = stage.sessions[0].mcp
        assert (failed.state, failed.problem) == ("failed", problem)
        assert problem in stage.sessions[0].mcp.instructions
    assert f"the MCP server 'raw': {problem}" in caplog.text


async def test_a_client_without_notices_is_shown_a_failed_tool_call(tmp_path: Path) -> None:
    async with staged(tmp_path, raw("absent"), capabilities={}) as (editor, session, _):
        for _ in range(2):
            assert await editor.ask(session, " ") == END_TURN
        [shown] = [update for update in editor.client.updates() if "toolCallId" in update]
        assert (shown["title"], shown["status"]) == ("MCP server raw", "failed")
        assert "it has ended with exit status 1" in str(shown["content"])


async def test_one_that_dies_in_a_call_fails_it_and_those_that_follow(tmp_path: Path) -> None:
    async with staged(tmp_path, raw("die"), raw("good", "other")) as (editor, session, stage):
        await call(editor, session, "raw_run")
        assert stage.told == (
            "failed",
            "The MCP server raw has ended. The effects of the call are unknown.",
        )
        await reported(editor)
        await call(editor, session, "raw_run")
        assert stage.told == ("failed", "The MCP server raw cannot be used: it has ended with exit status 3.")
        await call(editor, session, "other_run")
        assert stage.told == ("completed", "done")


async def test_a_turn_that_waits_for_a_server_is_cancelled_at_once(tmp_path: Path) -> None:
    async with staged(tmp_path, raw("silent")) as (editor, session, _):
        id = await editor.prompt(session, " ")
        await editor.settled()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED


async def test_no_process_is_left_of_a_session_that_is_closed_while_its_servers_hang(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    async with staged(tmp_path, raw("deaf", "a"), raw("silent", "b")) as (editor, session, _):
        with anyio.fail_after(10):
            while len(started := [c for c in psutil.Process().children() if c.pid not in before]) < 2:
                await anyio.lowlevel.checkpoint()
        await editor.client.result("session/close", {"sessionId": session})
        assert not [child for child in started if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


async def test_what_a_model_could_not_take_is_left_out_and_names_are_made_fit(tmp_path: Path) -> None:
    async with staged(tmp_path, raw("odd"), raw("good", "a/b"), raw("good", "raw")) as (editor, session, stage):
        await call(editor, session)
        odd, slash, second = (server.tools for server in stage.sessions[0].mcp)
        assert odd[0] == "raw_fine"
        assert len(odd) == 2
        assert odd[1].startswith("raw_a_tool_with_spaces_")
        assert slash[0].startswith("a_b_run_")
        assert second == ["raw_2_run"]
        for name in (odd[1], slash[0], "raw_2_run"):
            await call(editor, session, name)
            assert stage.told == ("completed", "done")


@pytest.mark.parametrize(("mode", "offered"), [("many", 256), ("pages", 1)])
async def test_one_with_too_many_tools_or_pages_offers_some(mode: str, offered: int, tmp_path: Path) -> None:
    async with staged(tmp_path, raw(mode)) as (editor, session, stage):
        await call(editor, session)
        assert len(stage.names) == offered


async def test_an_answer_that_is_too_long_fails_the_call_alone(tmp_path: Path) -> None:
    async with staged(tmp_path, raw("long")) as (editor, session, stage):
        await call(editor, session, "raw_run")
        assert stage.told[0] == "failed"
        assert "more than 16777216 bytes" in (stage.told[1] or "")
        assert [server.state for server in stage.sessions[0].mcp] == ["connected"]


async def test_what_a_tool_returns_is_not_checked_against_a_schema_of_the_server(tmp_path: Path) -> None:
    async with staged(tmp_path, raw("promise")) as (editor, session, stage):
        await call(editor, session, "raw_run")
        assert stage.told == ("completed", json.dumps({"word": "a" * 60 + "b"}, separators=(",", ":")))


async def test_a_request_for_a_model_is_refused(tmp_path: Path) -> None:
    async with staged(tmp_path, raw("sample")) as (editor, session, stage):
        await call(editor, session, "raw_run")
        assert json.loads(stage.told[1] or "")["message"] == "Sampling not supported"


async def test_values_of_its_environment_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with staged(tmp_path, raw("good", KEY="sesame open")) as (editor, session, stage):
            await call(editor, session, "raw_run")
            assert stage.told == ("completed", "done")
    assert "the key is [hidden]" in caplog.text
    assert "second" in caplog.text
    assert "sesame" not in caplog.text


async def test_a_session_without_servers_needs_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path) as (editor, session, stage):
        await call(editor, session)
        assert [*stage.sessions[0].mcp] == []
        assert stage.sessions[0].mcp.instructions == ""


async def test_it_is_connected_once() -> None:
    agent = Agent("twice", mcp=True)
    raised: list[str] = []

    @agent.session
    async def again(session: Session) -> None:
        try:
            await session.mcp.connect()
        except UsageError as error:
            raised.append(str(error))

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        await editor.open()
        await editor.open("/", mcpServers=[raw("good")])
    assert raised == ["the session is already connected to its MCP servers"]


def test_an_agent_without_the_extra_says_which_one_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_server.mcp.servers.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"acp-server\[mcp\]"):
        Agent("lacking", mcp=True)


async def test_the_agent_announces_what_it_connects_to() -> None:
    async with editing(Staged().agent, initialize=False) as editor:
        announced = (await editor.initialize())["agentCapabilities"]
        assert announced["mcpCapabilities"] == {"http": True, "sse": True}


@pytest.mark.parametrize("trusted", [(), ("raw",)])
async def test_a_title_is_one_harmless_line_with_the_real_names(tmp_path: Path, trusted: tuple[str, ...]) -> None:
    agent = Agent("staged", mcp=True, mcp_trusted=trusted)
    async with staged(tmp_path, raw("sly"), agent=agent) as (editor, session, stage):
        editor.client.answer(PERMISSION, selected("allow_once"))
        await call(editor, session)
        [name] = stage.names
        await call(editor, session, name)
        assert stage.told[0] == "completed"
        [begun] = [update for update in updates(editor) if update["sessionUpdate"] == "tool_call"]
        title = r"`raw`: `` rm\u200b`x` `` (`` Read\n\n**Safe**\x1b[2J\u202e`y` ``)"
        assert begun["title"] == title
        for question in editor.client.all(PERMISSION):
            message = question["params"]["toolCall"]["content"][0]["content"]["text"]
            assert message == f"May this run: {title}?"
        assert len(editor.client.all(PERMISSION)) == (0 if trusted else 1)


async def test_a_tool_that_is_described_anew_is_asked_about_anew(tmp_path: Path) -> None:
    agent = Agent("staged", mcp=True)
    async with staged(tmp_path, raw("turns"), agent=agent) as (editor, session, stage):
        editor.client.answer(PERMISSION, selected("allow_always"))
        for asked in (1, 2, 2):
            await call(editor, session, "raw_run")
            assert stage.told == ("completed", "done")
            assert len(editor.client.all(PERMISSION)) == asked
            with anyio.fail_after(10):
                while all(tool["description"] != "Something else." for tool in stage.sessions[0].tools.describe()):
                    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("url", "action"),
    [
        ("https://example.org/a?b=c#d", "accept"),
        ("http://localhost:8000", "accept"),
        ("javascript:alert(1)", "decline"),
        ("file:///etc/passwd", "decline"),
        ("vscode://command", "decline"),
        ("https://bank.example@evil.example/", "decline"),
        ("https://evil.example\\@bank.example/", "decline"),
        ("https://example.org/\u202egro.knab", "decline"),
        ("https://ex\u0430mple.org", "decline"),
        ("https://example.org/\nhttps://example.com", "decline"),
        ("https://example.org/" + "a" * 10_000, "decline"),
    ],
)
async def test_a_user_is_sent_to_pages_of_the_web_alone(url: str, action: str) -> None:
    asked: list[str] = []

    class Client:
        async def elicit_url(self, _message: str, url: str, **_: Any) -> Any:
            asked.append(url)
            return SimpleNamespace(action="accept")

    questions = ServerQuestions("raw", cast("Any", SimpleNamespace(client=Client())))
    params = SimpleNamespace(message="Go there", mode="url", elicitation_id="1", url=url)
    with questions.during(cast("Any", SimpleNamespace(id="c1"))):
        assert (await questions.ask(None, params)).action == action
    assert asked == ([url] if action == "accept" else [])
