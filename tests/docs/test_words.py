"""The page of the protocol's words has each of them, and no other."""

import re

import pytest

from acp_server import schema
from acp_server.apps.cli.chat import of_stop_reason
from acp_server.schema.words import OpenEnum, own_of

from .blocks import DOCS

TEXT = (DOCS / "words.md").read_text("utf-8")
SECTIONS = {
    re.findall(r"^`(\w+)`", section, re.MULTILINE)[0]: re.findall(r"^\| `(\w+)` \|.*\|$", section, re.MULTILINE)
    for section in TEXT.split("\n## ")[1:]
}
ELSEWHERE = {"SessionConfigOptionCategory", "ElicitationSchemaType", "StringFormat", "ErrorCode"}
"""Not what a user is shown: of forms, of errors, and categories of options, which are open."""


@pytest.mark.parametrize("name", SECTIONS)
def test_each_word_has_a_row(name: str) -> None:
    known = own_of(getattr(schema, name))
    assert isinstance(known, OpenEnum)
    assert SECTIONS[name] == known.known


def test_each_enumeration_has_a_section() -> None:
    types = {name: getattr(schema, name) for name in dir(schema) if schema.area_of(name)}
    enumerations = {name for name, kind in types.items() if isinstance(own_of(kind), OpenEnum)}
    assert enumerations - ELSEWHERE == set(SECTIONS)


def test_the_exit_status_of_each_stop_reason_is_that_of_the_chat() -> None:
    said = {word: int(code) for word, code in re.findall(r"^\| `(\w+)` \| [^|]* \| (\d+) \|$", TEXT, re.MULTILINE)}
    assert said == {word: int(of_stop_reason(word)) for word in SECTIONS["StopReason"]}
