"""The page of limits: it names every bound that can be set, with its unit and its default."""

import dataclasses
import inspect
import re

import pytest

from acp_server import Limits, MemoryStore, SqliteStore
from acp_server.client import bounds
from acp_server.client.files import MOST_BYTES
from acp_server.client.strays import EARLY_BYTES
from acp_server.client.terminals import COMMANDS, OUTPUT_BYTES
from acp_server.client.turn import SETTLE_SECONDS
from tests.session.editor import END_TURN, editing

from .blocks import DOCS, run

_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w.]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_table_of_limits_has_each_field_with_its_unit_and_its_default() -> None:
    page = (DOCS / "limits.md").read_text("utf-8")
    table = [(name, unit, default) for name, unit, default, *_ in _ROW.findall(page)]
    assert table == [(field.name, field.metadata["unit"], str(field.default)) for field in dataclasses.fields(Limits)]


def test_the_bounds_of_a_client_are_those_of_the_code() -> None:
    page = (DOCS / "clients.md").read_text("utf-8")
    table = [(name, unit, default) for name, unit, default, *_ in _ROW.findall(page)]
    assert table == [
        ("requests", "bytes", str(bounds.REQUEST_BYTES)),
        ("questions", "number", str(bounds.QUESTIONS)),
        ("large_answers", "number", str(bounds.LARGE_ANSWERS)),
        ("early_bytes", "bytes", str(EARLY_BYTES)),
        ("settle", "seconds", str(SETTLE_SECONDS)),
        ("most_bytes", "bytes", str(MOST_BYTES)),
        ("output_bytes", "bytes", str(OUTPUT_BYTES)),
        ("commands", "number", str(COMMANDS)),
    ]
    assert bounds.REQUEST_OVERHEAD == 8 * 1024


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
