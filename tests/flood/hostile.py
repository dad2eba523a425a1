"""The built-in agent, in whose folder and whose tool calls others have a hand: `python -m tests.flood.hostile BACKEND
NOTES FOLDER`. Its meter counts the CPU time of all threads, since one may hold the others."""

import sys
import time
from typing import Any

from anyio import to_thread

from acp_server import Agent, Call, Session, Turn
from acp_server.apps import coder
from acp_server.tools.json_schema import SchemaParameters
from tests.flood.meter import Meter

agent = Agent("hostile")
meter = Meter(int(sys.argv[2]), time.process_time)


def alternatives(keyword: str, count: int) -> dict[str, Any]:
    return {"items": {keyword: [{"const": n} for n in range(count)]}}


CHECKS: dict[str, tuple[dict[str, Any], Any]] = {
    "unique": ({"uniqueItems": True}, [{"a": n} for n in range(4000)]),
    "anyOf": (alternatives("anyOf", 1500), [-1, *range(1499)] * 2),
    "oneOf": (alternatives("oneOf", 1500), [-1, *range(1499)] * 2),
    "enum": ({"items": {"enum": [{"a": n} for n in range(1500)]}}, [-1, *range(1499)] * 2),
    "allOf": ({"items": {"allOf": [{}] * 1500}}, [0] * 3000),
    "items": ({"items": {"type": "integer"}}, [0] * 100_000),
    "names": ({"additionalProperties": False}, {f"n{n}": n for n in range(10_000)}),
    "pattern": ({"items": {"pattern": "^(a|aa)+$"}}, ["a" * 60 + "b"] * 1000),
}
"""A schema of up to 64 KiB, as a server of tools may have it, and arguments that a model may write."""


@agent.method("_watch")
async def watch(call: Call) -> None:
    await meter.watch()


@agent.session
async def prepare(session: Session) -> None:
    await coder.prepare(session)


@agent.prompt
async def answer(turn: Turn) -> Any:
    meter.note("begun")
    kind = turn.text.removeprefix("check ")
    if kind == turn.text:
        return await coder.prompt(turn)
    schema, value = CHECKS[kind]
    # As it is done with the schema of a server.
    parameters = await to_thread.run_sync(SchemaParameters, take, {"properties": {"x": schema}})
    turn.session.tools.add(take, name="take", parameters=parameters)
    while True:
        await turn.run_tool("take", {"x": value})


def take(arguments: Any) -> None:
    """Take them."""


if __name__ == "__main__":
    agent.run(backend="trio" if sys.argv[1] == "trio" else "asyncio")
