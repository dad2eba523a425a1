"""The names that tools of MCP servers have for a model, and what is hidden of their secrets."""

import re

import pytest

from acp_server.mcp.tools import exposed
from acp_server.mcp.transports import Secrets


def test_a_name_that_is_fit_is_the_servers_and_the_tools() -> None:
    assert exposed("fs", "read_file", lambda _: False) == "fs_read_file"


@pytest.mark.parametrize(
    ("server", "tool"),
    [("my files", "read"), ("fs", "read.all"), ("ü", "ö"), ("", ""), ("s" * 60, "t" * 60), ("\ud800", "x")],
)
def test_any_other_is_made_fit_and_tells_two_apart(server: str, tool: str) -> None:
    name = exposed(server, tool, lambda _: False)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    assert name == exposed(server, tool, lambda _: False)
    assert name != exposed(server, f"{tool}.", lambda _: False)


def test_a_name_that_another_tool_has_is_not_taken() -> None:
    taken: set[str] = set()
    for _ in range(3):
        name = exposed("a_b", "c", taken.__contains__)
        assert name not in taken
        taken.add(name)


def test_values_are_hidden_in_what_is_told_and_words_that_are_none_are_not() -> None:
    secrets = Secrets(["Bearer abcdef123", "1", "abcdef1234567"])
    assert secrets.hide("1: abcdef123, abcdef1234567!") == "1: [hidden], [hidden]!"
    assert len(secrets.hide("x" * 10_000)) < 1000
