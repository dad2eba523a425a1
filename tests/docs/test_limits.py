"""The page of limits: it names every bound that can be set, with its unit and its default."""

import dataclasses
import re

import pytest

from acp_server import Limits
from tests.session.editor import END_TURN, editing

from .blocks import DOCS, run

_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w.]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_table_of_limits_has_each_field_with_its_unit_and_its_default() -> None:
    page = (DOCS / "limits.md").read_text("utf-8")
    section = page.partition("\n## Limits of a connection\n")[2].partition("\n## ")[0]
    table = [(name, unit, default) for name, unit, default, *_ in _ROW.findall(section)]
    assert table == [(field.name, field.metadata["unit"], str(field.default)) for field in dataclasses.fields(Limits)]


@pytest.mark.anyio
async def test_limits_are_handed_over_as_the_page_shows_it() -> None:
    block = run("limits.md", "limits")
    assert block["limits"].line == 1024 * 1024
    async with editing(block["agent"], block["limits"]) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
