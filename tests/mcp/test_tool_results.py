"""What the tools of MCP servers return, as the user and the model get it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from acp_server import Limits, ToolFailed
from acp_server.mcp.tools import TEXT, output, shortened


class Block:
    """A content block of the official package, as far as it is read."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"annotations": None, "_meta": None, **self._fields}


class Call:
    """A running call, as far as it is used."""

    def __init__(self, **limits: int) -> None:
        self.client = SimpleNamespace(connection=SimpleNamespace(limits=Limits(**limits)))
        self.shown: list[Any] = []

    def progress(self, piece: Any) -> None:
        self.shown.append(piece)


def made(*blocks: Block, structured: Any = None, is_error: bool = False, call: Any = None) -> Any:
    result = SimpleNamespace(content=blocks, structured_content=structured, is_error=is_error)
    return output(result, cast("Any", call or Call()))


def test_text_is_for_both_and_the_rest_is_for_the_user() -> None:
    told = made(
        Block(type="text", text="one"),
        Block(type="image", data="aGk=", mimeType="image/png"),
        Block(type="audio", data="aGk=", mimeType="audio/wav"),
        Block(type="resource_link", uri="file:///a", name="a"),
        Block(type="resource", resource={"uri": "file:///b", "text": "two"}),
        Block(type="resource", resource={"uri": "file:///c", "blob": "aGk="}),
    )
    assert told.message.splitlines() == [
        "one",
        "[image, image/png: shown to the user]",
        "[audio, audio/wav: shown to the user]",
        "[a](file:///a)",
        "file:///b:",
        "two",
        "[file:///c: shown to the user]",
    ]
    assert [part.content.type for part in told.content] == ["image", "audio", "resource_link", "resource", "resource"]
    assert told.value[0] == told.message


def test_structured_content_is_the_value_and_stands_for_text_that_is_missing() -> None:
    told = made(structured={"a": 1})
    assert (told.message, told.value, told.raw_output) == ('{"a":1}', {"a": 1}, {"a": 1})
    told = made(Block(type="text", text="one"), structured={"a": "x" * 2_000_000})
    assert (told.message, told.value, told.raw_output) == ("one", "one", None)


def test_an_error_is_told_with_what_there_is_to_see() -> None:
    call = Call()
    with pytest.raises(ToolFailed, match="no"):
        made(
            Block(type="text", text="no"),
            Block(type="image", data="aGk=", mimeType="image/png"),
            is_error=True,
            call=call,
        )
    assert [piece.type for piece in call.shown] == ["image"]


def test_what_is_too_long_is_left_out_and_said_to_be() -> None:
    told = made(Block(type="image", data="x" * 60, mimeType="image/png"), call=Call(content=50))
    assert told.content == []
    assert told.message == "[image of 142 characters: too long, omitted]"
    text = made(Block(type="text", text="x" * 3 * TEXT)).message
    assert len(text) < TEXT + 100
    assert f"[{2 * TEXT} characters omitted]" in text
    assert shortened("abc", 3) == "abc"


def test_links_and_what_is_said_of_content_count_as_content() -> None:
    links = [Block(type="resource_link", uri=f"file:///{number}", name="x" * 1_000) for number in range(100)]
    described = Block(type="image", data="aGk=", mimeType="image/png", _meta={"note": "x" * 10_000})
    told = made(*links, described, call=Call(content=5_000))
    assert 0 < len(told.content) < 5
    assert told.message.count("too long, omitted]") == 101 - len(told.content)


def test_structured_content_with_very_many_members_is_left_out() -> None:
    assert made(Block(type="text", text="one"), structured={"rows": [[]] * 60_000}).value == "one"
