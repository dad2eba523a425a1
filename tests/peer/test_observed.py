"""A stream whose messages are shown to a function as they pass."""

import logging
from typing import Any

import pytest

from acp_server import Agent, ObservedStream, Turn
from acp_server.testing import memory_pair, scripted

pytestmark = pytest.mark.anyio


async def test_an_observer_sees_each_message_of_a_connection_in_both_directions() -> None:
    agent = Agent("seen")
    seen: list[tuple[str, Any]] = []

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return "said"

    async def serve(stream: Any) -> None:
        await agent.connect(ObservedStream(stream, lambda way, message: seen.append((way, message)))).run()

    async with scripted(serve) as client:
        await client.result("initialize", {"protocolVersion": 1})
        id = (await client.result("session/new", {"cwd": "/", "mcpServers": []}))["sessionId"]
        await client.result("session/prompt", {"sessionId": id, "prompt": [{"type": "text", "text": "go"}]})
        told = [message for message in client.received if message in [m for way, m in seen if way == "sent"]]
        assert told == client.received
    methods = [message.get("method") for way, message in seen if way == "received"]
    assert methods[:3] == ["initialize", "session/new", "session/prompt"]


async def test_torn_lines_are_put_together_and_what_is_no_message_is_passed_on_unseen() -> None:
    seen: list[tuple[str, Any]] = []
    mine, its = memory_pair()
    observed = ObservedStream(its, lambda way, message: seen.append((way, message)))
    got = b""
    for piece in (b'{"a"', b":1}\n{", b"no json\n", b"[" * 100_000 + b"\n[2]\n"):
        await mine.send(piece)
        got += await observed.receive()
    assert got.startswith(b'{"a":1}\n{no json\n[')
    await observed.send(b'{"b":2}\n{"c":')
    await observed.send(b"3}\n")
    assert seen == [("received", {"a": 1}), ("received", [2]), ("sent", {"b": 2}), ("sent", {"c": 3})]
    await observed.aclose()


async def test_an_observer_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fails(way: str, message: Any) -> None:
        raise RuntimeError("full")

    mine, its = memory_pair()
    observed = ObservedStream(its, fails)
    with caplog.at_level(logging.ERROR):
        await observed.send(b"{}\n{}\n")
        assert await mine.receive() == b"{}\n{}\n"
    assert [record.getMessage() for record in caplog.records] == ["an observer of messages failed"] * 2
    await observed.aclose()
