"""The page of clients: which updates there are."""

import re
from typing import get_args

from acp_server.schema import SessionUpdate

from .blocks import DOCS

_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \|", re.MULTILINE)


def test_each_kind_of_update_is_named() -> None:
    page = (DOCS / "clients.md").read_text("utf-8")
    table = page.split("An update is one of these classes")[1].split("\n\n")[1]
    named = [name for row in _ROW.findall(table) for name in re.findall(r"\w+", row)]
    assert sorted(named) == sorted(kind.__name__ for kind in get_args(get_args(SessionUpdate.__value__)[0]))
