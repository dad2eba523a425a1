"""Patterns and references in schemas of others: they say what they say, and take no time without end."""

import time
from typing import Any

import pytest

from acp_server import InvalidParams
from acp_server.tools.json_schema import SchemaParameters

SLOW = "^(a|aa)+$"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


TOO_LONG = (
    "matching a pattern of the schema takes too long",
    "checking the arguments against the schema takes too long",
)


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
    # On a busy machine the time for the whole schema may be over first.
    (problem,) = problems(schema, {"word": given})
    assert problem["path"] == ""
    assert problem["message"] in TOO_LONG
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


def doubling(levels: int, **more: Any) -> dict[str, Any]:
    """Definitions of which each refers twice to the next."""
    definitions = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)}
    return {"$defs": {**definitions, f"d{levels}": {}}, "properties": {"word": {"$ref": "#/$defs/d0"}}, **more}


def test_references_that_multiply_are_a_problem_and_hold_up_nothing() -> None:
    assert problems(doubling(16), {"word": 1}) == [
        {"path": "", "message": "following the references of the schema takes too long"}
    ]
    assert problems(doubling(10), {"word": 1}) == []


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_what_would_follow_references_by_itself_is_left_to_who_wrote_the_schema(keyword: str) -> None:
    schema = doubling(3)
    schema["properties"]["word"] = {"$ref": "#/$defs/d0", keyword: False}
    assert problems(schema, {"word": {"x": 1} if keyword == "unevaluatedProperties" else [1]}) == []


def test_a_tree_that_a_schema_describes_by_a_reference_to_itself_is_checked() -> None:
    schema: dict[str, Any] = {
        "$defs": {"node": {"properties": {"n": {"type": "integer"}, "kids": {"items": {"$ref": "#/$defs/node"}}}}},
        "properties": {"tree": {"$ref": "#/$defs/node"}},
    }
    tree = {"n": 1, "kids": [{"n": 2, "kids": [{"n": 3}] * 50}] * 100}
    for _ in range(5):
        assert problems(schema, {"tree": tree}) == []
    assert problems(schema, {"tree": {"kids": [{"n": "x"}]}}) == [
        {"path": "tree.kids[0].n", "message": "'x' is not of type 'integer'"}
    ]
