"""Sends an agent plain JSON, one request at a time. A client of the library would tolerate faults of the agent, and so
hide them.

The agent is started and ended elsewhere.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

import anyio
from anyio.abc import Process

_LONGEST_LINE: Final = 1 << 24
_REFUSED: Final = {"code": -32601, "message": "Method not found"}


class Silent(Exception):
    """Raised if there is no answer. The text describes the actual behaviour."""


class RawAgent:
    """A process that receives one request at a time."""

    def __init__(self, process: Process, timeout: float) -> None:
        self.process: Process = process
        self._timeout = timeout
        self._rest = b""
        self._said = ""
        self._asked = 0

    async def listen(self) -> None:
        """Read the agent's standard error, and keep the last part."""
        assert self.process.stderr is not None
        async for data in self.process.stderr:
            self._said = (self._said + data.decode(errors="replace"))[-2_000:]

    async def ask(self, method: str, params: Any, seconds: float | None = None) -> dict[str, Any]:
        """Send a request; returns the answer unchanged. Requests of the agent are refused meanwhile. Raises Silent if
        there is no answer in `seconds`, or in the time limit of all answers."""
        self._asked += 1
        patience = self._timeout if seconds is None else min(seconds, self._timeout)
        request = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        try:
            with anyio.fail_after(patience):
                await self._send(request)
                while True:
                    answer = _message(await self._line())
                    if answer == request:
                        raise Silent("the program echoes its input, as `cat` does, so it is not an agent")
                    if answer.get("id") == self._asked and "method" not in answer:
                        return answer
                    if "method" in answer and answer.get("id") is not None:
                        await self._send({"jsonrpc": "2.0", "id": answer["id"], "error": _REFUSED})
        except TimeoutError:
            raise Silent(self._with_last_words(f"no answer within {patience:g} s")) from None
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            raise Silent(await self._died()) from None

    async def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps(message).encode() + b"\n")

    async def _line(self) -> bytes:
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            if len(self._rest) > _LONGEST_LINE:
                raise Silent("the output ended within a line")
            self._rest += await self.process.stdout.receive()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    async def _died(self) -> str:
        with anyio.move_on_after(1):
            await self.process.wait()
        code = self.process.returncode
        return self._with_last_words("it closed its output" if code is None else f"it ended with status {code}")

    def _with_last_words(self, what: str) -> str:
        return f"{what}; it said: {self._said.strip()}" if self._said.strip() else what


def _message(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Silent(f"standard output has a line that is not a message: {short(line.decode(errors='replace'))}")
    return cast("dict[str, Any]", value)


def short(value: Any) -> str:
    """Return `value` as text, at most 200 characters."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."
