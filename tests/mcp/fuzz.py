"""A recorded conversation with an MCP server over stdio, played again with one of its messages changed.

The server is in memory, all else is real: the agent, its session, and the official package. Each `play` says which
promises are broken. `python -m tests.mcp.fuzz 1000` plays a thousand changes of each message.
"""

import json
import os
import random
import sys
from collections import deque
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.mcp import transports
from tests.mcp.stage import call, raw, staged
from tests.tools.kept import PERMISSION, selected

TOOLS = [
    {
        "name": name,
        "description": "Does it.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
    for name in ("one", "two", "three")
]
INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": True}, "logging": {}},
    "serverInfo": {"name": "recorded", "version": "1"},
    "instructions": "Call one.",
}
CALLED = {"content": [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}], "isError": False}
SAID: list[dict[str, Any]] = [
    {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1, "total": 2, "message": "half"}},
    {"method": "notifications/message", "params": {"level": "info", "data": "x"}},
    {"method": "ping", "id": "p1"},
    {"method": "sampling/createMessage", "id": "s1", "params": {"messages": [], "maxTokens": 1}},
]
"""What the server says before the answer to a call."""
PLACES = ("initialize", "tools/list", *(message["method"] for message in SAID), "tools/call")
"""The messages, in their order."""
VALUES: list[Any] = [None, True, 0, -1, 1.5, "", "x", "\ud83d", [], [None], {}, {"type": "object"}]


def changed(value: Any, dice: random.Random) -> Any:
    """The value with one member, at any depth, replaced, removed or renamed."""
    if not isinstance(value, dict | list) or not value or dice.random() < 0.1:
        return dice.choice(VALUES)
    at = dice.choice(list(value) if isinstance(value, dict) else range(len(value)))
    copy: Any = value.copy()
    how = dice.random()
    if how < 0.15:
        del copy[at]
    elif how < 0.25 and isinstance(copy, dict):
        copy[f"{at}_"] = copy.pop(at)
    else:
        copy[at] = changed(copy[at], dice)
    return copy


class Recorded:
    """The process of the server. The message at `place` is changed, the first time that it is said."""

    exit_code = None

    def __init__(self, place: str, dice: random.Random) -> None:
        self._place: str | None = place
        self._dice = dice
        self._lines: deque[bytes] = deque()
        self._news = anyio.Event()
        self.stream = self
        self.kept: list[str] = []
        """The tools that the changed list has as they were."""
        self.line = b""
        """What was said in the place of the message."""

    async def start(self, *_: Any, **__: Any) -> "Recorded":
        return self

    async def send(self, data: bytes) -> None:
        request = json.loads(data)
        method, id = request.get("method"), request.get("id")
        results = {"initialize": INITIALIZED, "tools/list": {"tools": TOOLS}, "tools/call": CALLED}
        if method == "tools/call":
            for message in SAID:
                self._say(message["method"], message)
        if method in results:
            self._say(method, {"id": id, "result": results[method]})
        elif method is not None and id is not None:
            self._say("", {"id": id, "error": {"code": -32601, "message": "Method not found"}})

    def _say(self, place: str, message: dict[str, Any]) -> None:
        said: Any = {"jsonrpc": "2.0", **message}
        line = json.dumps(said).encode()
        if place == self._place:
            self._place = None
            if self._dice.random() < 0.3:
                line = self._cut(line)
            else:
                said = self._changed(said)
                line = json.dumps(said).encode()
            self.line = line
            if place == "tools/list":
                listed = _tools(line)
                self.kept = [tool["name"] for tool in TOOLS if tool in listed]
        self._lines.append(line + b"\n")
        self._news.set()

    def _changed(self, message: dict[str, Any]) -> Any:
        # The id of an answer stays, or goes: an answer to what has been answered already is that, and says nothing.
        if self._dice.random() < 0.1:
            return {key: value for key, value in message.items() if key != "id"}
        rest = {key: value for key, value in message.items() if key != "id"}
        odd = changed(rest, self._dice)
        if not isinstance(odd, dict | list):
            odd = []  # a line with a number or a text alone is no message, as what programs print of their own
        return {**odd, "id": message["id"]} if "id" in message and isinstance(odd, dict) else odd

    def _cut(self, line: bytes) -> bytes:
        if self._dice.random() < 0.5:
            return line[: self._dice.randrange(2, len(line))]
        place = self._dice.randrange(20, len(line))
        return line[:place] + bytes([self._dice.choice(b"\x00\xff\\{}[],:x")]) + line[place + 1 :]

    async def receive(self) -> bytes:
        while not self._lines:
            self._news = anyio.Event()
            await self._news.wait()
        return self._lines.popleft()

    async def last_words(self, _: float) -> None: ...

    def kill(self) -> None: ...

    async def aclose(self, *_: Any) -> None: ...


def _tools(line: bytes) -> list[Any]:
    """Those of an answer to `tools/list`, as far as it is one."""
    try:
        listed = json.loads(line)["result"]["tools"]
    except (ValueError, KeyError, TypeError, IndexError):
        return []
    return listed if isinstance(listed, list) else []


async def play(place: str, seed: int, cwd: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    """One change of the message at `place`: the promises that are broken."""
    server = Recorded(place, random.Random(f"{place} {seed}"))
    broken: list[str] = []
    caplog.clear()
    with pytest.MonkeyPatch.context() as patch, anyio.move_on_after(20) as patience:
        patch.setattr(transports, "ChildProcess", server)
        async with staged(cwd, raw("good")) as (editor, session, stage):
            editor.client.answer(PERMISSION, selected("allow_once"))
            await call(editor, session)
            [mcp] = stage.sessions[0].mcp
            missing = [name for name in server.kept if f"raw_{name}" not in mcp.tools]
            if mcp.state == "connected" and missing:
                broken.append(f"lost the tools {missing}")
            told: list[Any] = []
            for name in [name.removeprefix("raw_") for name in mcp.tools][:2]:
                await call(editor, session, f"raw_{name}")
                told.append(stage.told)
            fine = mcp.state == "connected" and len(mcp.tools) == len(TOOLS)
            fine = fine and told == [("completed", "first\nsecond")] * 2
            words = [*caplog.messages, *(message for status, message in told if status == "failed")]
            # A server may say that it has no tools.
            without = place == "initialize" and mcp.state == "connected" and not mcp.tools
            if not (fine or words or without or (told and told[0][0] == "completed")):
                broken.append(f"unsaid: {mcp.state}, {mcp.tools}, {told}")
            if told[1:] and told[1] != ("completed", "first\nsecond"):
                broken.append(f"the call behind it: {told[1]}")
    if patience.cancelled_caught:
        broken.append("hangs")
    return [f"{each} after {server.line!r}" for each in broken]


if __name__ == "__main__":
    os.environ["MCP_FUZZ"] = sys.argv[1]
    sys.exit(pytest.main([str(Path(__file__).with_name("test_fuzz.py")), "-q"]))
