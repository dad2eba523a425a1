"""The page of the protocol's coverage has each method and each update, with what the schema says of them."""

import re

import acp_server
import acp_server.client
from acp_server.schema.export import definitions
from acp_server.schema.methods import MEMBER_CAPABILITIES, METHODS

from .blocks import DOCS

PAGE = (DOCS / "coverage.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_each_method_is_there_with_its_direction_and_its_capability() -> None:
    listed = [(*words(row[0]), row[1], *words(row[2])) for row in rows("Methods")]
    assert listed == [
        (method.name, method.receiver, *([method.capability] if method.capability else []))
        for method in METHODS.values()
    ]


def test_each_update_is_there_with_its_capability() -> None:
    known = definitions()
    kinds = known["SessionUpdate"]["oneOf"]
    names = [kind["$ref"].rpartition("/")[2] for kind in kinds]
    tags = [known[name]["properties"]["sessionUpdate"]["const"] for name in names]
    listed = {words(row[0])[0]: [*words(row[1])] for row in rows("Updates")}
    capabilities = MEMBER_CAPABILITIES["SessionUpdate"]
    assert listed == {tag: [capabilities[tag]] if tag in capabilities else [] for tag in tags}


def test_each_name_on_the_page_is_there() -> None:
    names = {word for row in rows("Methods") for word in words(f"{row[3]} {row[4]}")}
    names |= {word for row in rows("Updates") for word in words(row[2])} - {"yield"}
    names |= {word for word in words(PAGE) if re.fullmatch(r"[A-Z]\w+\.\w+", word)}
    assert len(names) > 50
    missing: list[str] = []
    for name in sorted(names - {"approval"}):
        first, _, member = name.partition(".")
        owner = getattr(acp_server, first, None) or getattr(acp_server.client, first, None)
        instance = getattr(owner, "__dataclass_fields__", {})
        if owner is None or (member and not (hasattr(owner, member) or member in instance)):
            missing.append(name)
    assert missing == []
