"""`acp-server trace`: a recorded conversation for a reader, each answer with what it answers and how long it took.

The recordings are made by `acp_server.agent.record`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import click

from acp_server.agent.record import Direction, Entry, read_recording
from acp_server.cli.screen import Screen, one_line, use_standard_output
from acp_server.errors import REQUEST_CANCELLED
from acp_server.wire import codec

_ARROWS: Final[dict[Direction, str]] = {"in": "-->", "out": "<--"}
_OTHER: Final[dict[Direction, Direction]] = {"in": "out", "out": "in"}

_ELSEWHERE: Final = (120, 24)
"""The size of the page where the output is not a terminal."""


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--full", is_flag=True, help="Show every message whole, however long it is.")
def trace(file: str, full: bool) -> int:
    """Show a recorded conversation: --> is to the agent, <-- from it."""
    use_standard_output()
    screen = Screen()
    width = None if full else shutil.get_terminal_size(_ELSEWHERE).columns
    for row in rows(read_recording(file).entries):
        text = f"{row.seconds:9.3f} {_ARROWS[row.direction]} {row.title}"
        rest = one_line(row.rest)
        if width is not None and len(text) + 2 + len(rest) > width:
            rest = rest[: max(0, width - len(text) - 5)] + "..."
        style: dict[str, Any] = {"fg": row.colour} if row.colour else {}
        screen.line(text, f"  {rest}" if rest else "", **style)
    return 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the trace. `seconds` since the first one; `rest` is what may be cut off."""

    seconds: float
    direction: Direction
    title: str
    rest: str = ""
    colour: str | None = None


def rows(entries: list[Entry]) -> Iterator[Row]:
    """What to show: a row for each message, and at the end one for each request that was never answered."""
    pending: dict[tuple[Direction, str], tuple[float, str]] = {}
    start = entries[0].t if entries else 0.0
    for entry in entries:
        if entry.raw is not None:
            yield Row(entry.t - start, entry.dir, "not JSON", entry.raw, "red")
        elif entry.skipped is not None:
            yield Row(entry.t - start, entry.dir, f"a line of more than {entry.skipped} bytes", "", "red")
        else:
            msg: Any = entry.msg
            for message in cast("list[Any]", msg) if isinstance(msg, list) else [msg]:
                title, rest, colour = _message(message, entry, pending)
                yield Row(entry.t - start, entry.dir, title, rest, colour)
    for (direction, id), (t, method) in pending.items():
        yield Row(t - start, direction, f"#{id} {method}", "was never answered", "red")


def _message(
    value: Any, entry: Entry, pending: dict[tuple[Direction, str], tuple[float, str]]
) -> tuple[str, str, str | None]:
    if not isinstance(value, dict):
        return "no message", _json(value), "red"
    message = cast("dict[str, Any]", value)
    if "method" in message:
        method, params = str(message["method"]), message.get("params")
        rest = "" if params is None else _json(params)
        if "id" in message:
            id = _json(message["id"])
            pending[entry.dir, id] = (entry.t, method)
            return f"#{id} {method}", rest, "cyan"
        if method == "$/cancel_request" and isinstance(params, dict):
            id = _json(cast("dict[str, Any]", params).get("requestId"))
            _, cancelled = pending.get((entry.dir, id), (0.0, "which is not waiting for an answer"))
            return f"cancel #{id} {cancelled}", "", "yellow"
        if method == "session/update" and isinstance(params, dict):
            method, rest = _update(cast("dict[str, Any]", params))
        return method, rest, "yellow" if method == "session/cancel" else None
    id = _json(message.get("id"))
    began, method = pending.pop((_OTHER[entry.dir], id), (None, "answers no request"))
    took = "" if began is None else f" {_duration(entry.t - began)}"
    if "error" not in message:
        result = message.get("result")
        cancelled = isinstance(result, dict) and _is_cancelled(cast("dict[str, Any]", result))
        return (
            f"#{id} {method}{took}{' CANCELLED' if cancelled else ''}",
            _json(result),
            "yellow" if cancelled else "green",
        )
    error = message["error"]
    cancelled = isinstance(error, dict) and cast("dict[str, Any]", error).get("code") == REQUEST_CANCELLED
    return (
        f"#{id} {method}{took}{' CANCELLED' if cancelled else ' FAILED'}",
        _json(error),
        "yellow" if cancelled else "red",
    )


def _update(params: dict[str, Any]) -> tuple[str, str]:
    update = params.get("update")
    if not isinstance(update, dict):
        return "session/update", _json(params)
    rest = dict(cast("dict[str, Any]", update))
    kind = rest.pop("sessionUpdate", "of no kind")
    return f"session/update {kind}", _json(rest)


def _is_cancelled(result: dict[str, Any]) -> bool:
    outcome = result.get("outcome")
    return result.get("stopReason") == "cancelled" or (
        isinstance(outcome, dict) and cast("dict[str, Any]", outcome).get("outcome") == "cancelled"
    )


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _json(value: Any) -> str:
    return codec.encode(value).decode().rstrip("\n")
