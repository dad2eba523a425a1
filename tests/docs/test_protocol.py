"""The page on the versions of the protocol lists the methods that the tables of the code have, and its sample runs."""

from acp_server import schema
from acp_server.schema import v2

from .blocks import DOCS, run

PAGE = (DOCS / "protocol.md").read_text("utf-8")


def test_the_page_lists_every_method_of_each_version_and_no_other() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `")]
    cells = {row[0].strip("`"): row[1:] for row in rows}
    assert len(cells) == len(rows)
    assert {name for name, row in cells.items() if row[0] == "both sides"} == set(schema.METHODS)
    assert {name for name, row in cells.items() if row[1:] == ["types", "types"]} == set(v2.METHODS)
    assert {cell for row in cells.values() for cell in row} == {"both sides", "types", "-"}


def test_protocol_patches() -> None:
    found = run("protocol.md", "patches")
    assert found["unset"] == {"toolCallId": "call_1"}
    assert found["cleared"] == {"toolCallId": "call_1", "title": None}
    assert found["says_so"] is True


def test_protocol_record() -> None:
    found = run("protocol.md", "record")
    assert (found["call"]["title"], found["call"]["status"]) == ("Search", "completed")
    assert [update["sessionUpdate"] for update in found["replay"]] == [
        "tool_call_update",
        "session_info_update",
        "state_update",
    ]
