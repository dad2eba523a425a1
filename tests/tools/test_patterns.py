"""Patterns in schemas of others: they say what they say, and take no time without end."""

import time
from typing import Any

import pytest

from acp_server import InvalidParams
from acp_server.tools.json_schema import SchemaParameters

SLOW = "^(a|aa)+$"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def take(arguments: Any) -> None:
    """Take them."""


def problems(schema: dict[str, Any], arguments: dict[str, Any]) -> list[dict[str, str]]:
    try:
        SchemaParameters(take, schema).read(arguments)
    except InvalidParams as error:
        return error.data["problems"]
    return []


def of(word: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"properties": {"word": word}, **more}


@pytest.mark.parametrize(
    "schema",
    [
        of({"pattern": SLOW}),
        of({"pattern": SLOW}, **{"$schema": DRAFT_7}),
        of({"pattern": SLOW, "$schema": DRAFT_7}),
        of({"anyOf": [{"$ref": "#/$defs/slow"}]}, **{"$defs": {"slow": {"pattern": SLOW}}}),
        of({"type": "object", "patternProperties": {SLOW: {}}}),
        of({"type": "object", "patternProperties": {SLOW: {}}, "additionalProperties": False}),
        of({"type": "object", "patternProperties": {SLOW: {}}, "unevaluatedProperties": False}),
        of({"type": "array", "items": {"pattern": SLOW}}),
    ],
)
def test_a_pattern_that_takes_too_long_is_a_problem_and_holds_up_nothing(schema: dict[str, Any]) -> None:
    word = "a" * 60 + "b"
    given = {"object": {word: 1}, "array": [word] * 1000}.get(schema["properties"]["word"].get("type"), word)
    before = time.process_time()
    assert problems(schema, {"word": given}) == [
        {"path": "", "message": "a pattern of the schema takes too long to match"}
    ]
    assert time.process_time() - before < 5


@pytest.mark.parametrize("pattern", ["a" * 1001, "((x{1000}){1000}){1000}", "x{999999999}"])
def test_a_pattern_that_is_too_large_lets_everything_pass(pattern: str) -> None:
    assert problems(of({"pattern": pattern}), {"word": "anything"}) == []


@pytest.mark.parametrize("pattern", ["(", "(?R)a", "(?1)(a)"])
def test_a_pattern_of_names_that_cannot_be_read_lets_everything_pass(pattern: str) -> None:
    # That of this draft does not say that a name must be a pattern.
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "patternProperties": {pattern: {"type": "integer"}},
        "additionalProperties": False,
    }
    assert problems(schema, {"word": "anything"}) == []


def test_patterns_say_which_text_and_which_names_fit() -> None:
    assert problems(of({"pattern": "^a+$"}), {"word": "aa"}) == []
    assert problems(of({"pattern": "^a+$"}), {"word": "ab"}) == [
        {"path": "word", "message": "'ab' does not match '^a+$'"}
    ]
    assert problems(of({"pattern": "^a+$"}), {"word": 1}) == []
    named = {"properties": {"n": {}}, "patternProperties": {"^x_": {"type": "string"}}, "additionalProperties": False}
    assert problems(named, {"n": 1, "x_a": "b"}) == []
    assert [problem["path"] for problem in problems(named, {"x_a": 1})] == ["x_a"]
    assert "'y'" in problems(named, {"x_a": "b", "y": 1})[0]["message"]
    typed = named | {"additionalProperties": {"type": "integer"}}
    assert problems(typed, {"x_a": "b", "y": 1}) == []
    assert [problem["path"] for problem in problems(typed, {"y": "z"})] == ["y"]


def test_of_a_long_name_that_does_not_fit_the_beginning_is_told() -> None:
    schema: dict[str, Any] = {"additionalProperties": {"type": "integer"}}
    (problem,) = problems(schema, {"n" * 100_000: "x"})
    assert problem == {"path": "n" * 300, "message": "'x' is not of type 'integer'"}
