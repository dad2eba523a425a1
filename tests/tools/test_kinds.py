"""What sort of tool an author may call a tool."""

import pytest

from acp_server.errors import UsageError
from acp_server.tools.tool import Tool


def tool() -> str:
    return ""


def test_a_kind_that_no_editor_knows_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="a tool cannot have the kind 'edti'; did you mean 'edit'"):
        Tool(tool, kind="edti")
    with pytest.raises(UsageError, match="a tool cannot have the kind 'zzz'; there are read, edit"):
        Tool(tool, kind="zzz")
    with pytest.raises(UsageError, match="the kind of a tool must be a string, not 5"):
        Tool(tool, kind=5)  # pyright: ignore[reportArgumentType]


def test_a_kind_of_the_protocol_and_one_of_an_extension_are_kinds() -> None:
    assert [Tool(tool, kind=kind).kind for kind in ("search", "_own")] == ["search", "_own"]
