"""The page of limits: it names every bound that can be set, with its unit and its default."""

import dataclasses
import inspect
import re
import signal

import pytest

from acp_server import Limits, MemoryStore, SqliteStore
from acp_server.agent.ending import AGAIN, Deadline, Ending
from acp_server.client import routes
from acp_server.client.local import COMMANDS, MOST_BYTES, OUTPUT_BYTES
from acp_server.client.turn import CANCEL_SECONDS, UNTAKEN_BYTES
from acp_server.client.update_router import EARLY_BYTES
from acp_server.peer import reader
from acp_server.wire import framing
from tests.session.editor import END_TURN, editing

from .blocks import DOCS, run

_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w.]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_table_of_limits_has_each_field_with_its_unit_and_its_default() -> None:
    page = (DOCS / "limits.md").read_text("utf-8")
    table = [(name, unit, default) for name, unit, default, *_ in _ROW.findall(page)]
    assert table == [(field.name, field.metadata["unit"], str(field.default)) for field in dataclasses.fields(Limits)]


def test_help_on_limits_has_each_field_with_its_unit_and_what_it_bounds() -> None:
    listed = re.findall(r"^(\w+) \((\w+)\): \S+", inspect.getdoc(Limits) or "", re.MULTILINE)
    assert listed == [(field.name, field.metadata["unit"]) for field in dataclasses.fields(Limits)]


def test_the_bounds_of_a_client_are_those_of_the_code() -> None:
    page = (DOCS / "clients.md").read_text("utf-8")
    table = [(name, unit, default) for name, unit, default, *_ in _ROW.findall(page)]
    assert table == [
        ("questions", "number", str(routes.QUESTIONS)),
        ("large_answers", "number", str(routes.LARGE_ANSWERS)),
        ("early_bytes", "bytes", str(EARLY_BYTES)),
        ("untaken_bytes", "bytes", str(UNTAKEN_BYTES)),
        ("cancel_timeout", "seconds", str(CANCEL_SECONDS)),
        ("most_bytes", "bytes", str(MOST_BYTES)),
        ("output_bytes", "bytes", str(OUTPUT_BYTES)),
        ("commands", "number", str(COMMANDS)),
    ]


def test_the_deadlines_of_the_end_are_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    page = re.sub(r"\s+", " ", (DOCS / "cancellation.md").read_text("utf-8"))
    told = re.search(r"(\d+) s with the default `Limits`, (\d+) s if the event loop is blocked when a signal", page)
    assert told
    armed: list[float] = []
    monkeypatch.setattr(Deadline, "arm", lambda _self, seconds, _code, _why: armed.append(seconds))
    ending = Ending(Limits())
    ending.begin(0)
    ending.alarm(signal.SIGTERM)
    assert armed == [float(seconds) for seconds in told.groups()]
    again = re.search(r"more than (\d+) s after the first, the process ends at once", page)
    assert again
    assert float(again[1]) == AGAIN


@pytest.fixture
def all_in_one_slice() -> None:
    """The reader's slices are those that the page is about."""


def test_the_page_of_cancellation_has_the_bounds_of_the_reader() -> None:
    page = re.sub(r"\s+", " ", (DOCS / "cancellation.md").read_text("utf-8"))
    slices = f"{reader._SLICE * 1000:g} ms"
    assert f"in slices of {slices}, up to {reader._AHEAD // 1024**2} MiB are read ahead" in page
    assert f"more than {framing._BLOCK // 1024} KiB separate the two and take over {slices}" in page


def test_the_table_of_stores_has_each_of_their_bounds_with_its_default() -> None:
    page = (DOCS / "limits.md").read_text("utf-8")
    table = re.findall(r"^\| `(\w+)\.(\w+)` \| \w+ \| (\d+) \|", page, re.MULTILINE)
    assert table
    for store in (MemoryStore, SqliteStore):
        parameters = inspect.signature(store).parameters.values()
        sizes = {one.name: str(one.default) for one in parameters if isinstance(one.default, int)}
        assert {name: default for owner, name, default in table if owner == store.__name__} == sizes


@pytest.mark.anyio
async def test_limits_are_handed_over_as_the_page_shows_it() -> None:
    block = run("limits.md", "limits")
    assert block["limits"].line == 1024 * 1024
    async with editing(block["agent"], block["limits"]) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
