"""Fail a test whose agent sent a message that is not as the published schema has it.

The judge's own check of messages looks at what each scripted client got. A test whose agent sends odd shapes on purpose
is marked `odd_shapes`.
"""

import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest

from acp_conformance.core.checker import Checker
from acp_server.agent.record import Entry
from acp_server.testing import ScriptedClient

RULES = {"request", "update", "result", "error-object", "method-name", "direction"}
"""What an agent can break alone. The others depend on what the test sends, which is often no message at all."""

_clients: list[ScriptedClient] = []


_leave = ScriptedClient.__aexit__


async def _left(
    self: ScriptedClient,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    _clients.append(self)
    await _leave(self, kind, error, traceback)


ScriptedClient.__aexit__ = _left  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def shapes_are_published(request: pytest.FixtureRequest) -> Iterator[None]:
    """What agents have sent in the test is as the schema has it."""
    _clients.clear()
    yield
    if request.node.get_closest_marker("odd_shapes") is None:
        found = sorted({problem for client in _clients for problem in problems(client.transcript.entries)})
        if found:
            pytest.fail("not as the schema has it: " + "; ".join(found), pytrace=False)


def problems(entries: list[Entry]) -> Iterator[str]:
    """What is wrong with what the agent sent in one conversation."""
    hellos = (_params(entry) for entry in entries if entry.dir == "in" and _method(entry) == "initialize")
    hello = next(hellos, {})
    version = 2 if hello.get("protocolVersion") == 2 else 1
    checker = Checker("agent", version)
    checker.client_capabilities = hello.get("clientCapabilities" if version == 1 else "capabilities") or {}
    for entry in entries:
        if entry.dir == "in":
            checker.sent(entry.msg)
        elif entry.msg is not None:
            _, found = checker.check(json.dumps(entry.msg).encode())
            yield from (each.what for each in found if each.rule in RULES)


def _method(entry: Entry) -> Any:
    return entry.msg.get("method") if isinstance(entry.msg, dict) else None


def _params(entry: Entry) -> dict[str, Any]:
    params = entry.msg.get("params")
    return params if isinstance(params, dict) else {}
