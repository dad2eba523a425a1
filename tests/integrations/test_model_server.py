"""A model's server that says more than it may, and the variables that are for it alone."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai", reason="the extra model is not installed: make test-integrations")

from acp_server.apps.coder.model_agent import model_agent
from acp_server.integrations import model_server
from acp_server.integrations.model import find_model
from tests.integrations import contract
from tests.integrations.model_server import model_server as served
from tests.integrations.model_server import tool_call
from tests.session.editor import Editor, editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

ALLOWED = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
TERMINALS = {"terminal": True}


async def failed(editor: Editor, session: str) -> str:
    asked = await editor.client.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "?"}]})
    # Some clients show no reason of an error.
    assert editor.said(session)[-1].strip() == asked["error"]["message"]
    return str(asked["error"])


def more(arguments: str) -> dict[str, object]:
    """One more piece of the arguments of a tool call."""
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}


@pytest.mark.parametrize("kind", ["text", "arguments", "parts"])
async def test_an_answer_that_does_not_end_is_given_up(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "ANSWER", 2**20)
    monkeypatch.setattr(model_server, "PARTS", 10)
    piece = "x" * 2**16
    endless = {
        "text": [piece] * 200,
        "arguments": [tool_call("run", {}), *([more(piece)] * 200)],
        "parts": [
            {"tool_calls": [{**tool_call("read", {"path": "a"}, id=f"c{number}")["tool_calls"][0], "index": number}]}
            for number in range(50)
        ],
    }[kind]
    said = "more than 10 parts" if kind == "parts" else "longer than 1 million characters"
    async with served(endless, ["Fine."]) as server, editing(model_agent("openai:x", base_url=server.url)) as editor:
        session = await editor.open(str(tmp_path))
        assert said in await failed(editor, session)
        # The next turn is like any other.
        assert (await editor.ask(session))["stopReason"] == "end_turn"
        assert editor.said()[-1] == "Fine."


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"


@asynccontextmanager
async def plainly(write: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncGenerator[str]:
    """A server that answers anything with the same bytes: its URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await write(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_one_piece_that_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_server, "ANSWER_BYTES", 2**20)

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\ndata: ")
        for _ in range(10_000):
            writer.write(b"x" * 2**16)
            await writer.drain()

    async with plainly(write) as url, editing(model_agent("openai:x", base_url=url)) as editor:
        assert "longer than 1 MiB" in await failed(editor, await editor.open(str(tmp_path)))


async def test_a_compressed_answer_is_not_taken(tmp_path: Path) -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"content-encoding: gzip\r\n\r\nxxx")
        await writer.drain()

    async with plainly(write) as url, editing(model_agent("openai:x", base_url=url)) as editor:
        assert "compressed" in await failed(editor, await editor.open(str(tmp_path)))


@pytest.mark.parametrize(
    ("name", "base_url", "variable"),
    [
        ("openai:x", None, "OPENAI_API_KEY"),
        ("openai:x", "http://127.0.0.1:1/v1", "OPENAI_API_KEY"),
        ("anthropic:x", None, "ANTHROPIC_API_KEY"),
    ],
)
async def test_the_variables_that_a_provider_reads_are_found(
    name: str, base_url: str | None, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "secret")
    environment = os.environ
    reads: set[str] = set()
    find_model(name, base_url=base_url, reads=reads)
    assert variable in reads
    assert not reads & {"PATH", "HOME", "HTTP_PROXY", "HTTPS_PROXY", "SSL_CERT_FILE", "LANG"}
    assert os.environ is environment


@pytest.mark.parametrize(("pass_env", "shown"), [((), "key:;"), (("OPENAI_API_KEY",), "key:secret;")])
async def test_a_command_does_not_get_the_key_unless_the_user_says_so(
    pass_env: tuple[str, ...], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OTHER", "kept")
    command = tool_call("run", {"command": 'echo "key:$OPENAI_API_KEY; other:$OTHER"; env'})
    async with served([command], ["Done."]) as server:
        agent = model_agent("openai:x", base_url=server.url, pass_env=pass_env)
        async with editing(agent, capabilities={}) as editor:
            editor.client.answer(contract.PERMISSION, ALLOWED)
            await editor.ask(await editor.open(str(tmp_path)))
        printed = str(server.requests[-1]["messages"][-1]["content"])
        assert shown in printed
        assert "other:kept" in printed
        assert ("secret" in printed) == bool(pass_env)


async def test_a_terminal_of_the_client_gets_the_key_as_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    async with (
        served([tool_call("run", {"command": "env"})], ["Done."]) as server,
        editing(model_agent("openai:x", base_url=server.url), capabilities=TERMINALS) as editor,
    ):
        editor.client.answer(contract.PERMISSION, ALLOWED)
        prompt = await editor.prompt(await editor.open(str(tmp_path)))
        asked = await editor.client.expect_request("terminal/create")
        assert {"name": "OPENAI_API_KEY", "value": ""} in asked["params"]["env"]
        assert "secret" not in str(asked)
        await editor.client.refuse(asked, -32603)
        await editor.answer(prompt)
