"""Checks against schemas of others end, whatever the schema and the arguments are, and honest ones are not refused."""

import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, InvalidParams, ToolResult, Turn, UsageError
from acp_server.tools.json_schema import SchemaParameters

from .calls import updates

TOO_LONG = [{"path": "", "message": "checking the arguments against the schema takes too long"}]
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_6 = "http://json-schema.org/draft-06/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def take(arguments: Any) -> None:
    """Take them."""


def problems(of: dict[str, Any], value: Any, **more: Any) -> list[dict[str, str]]:
    """Those of one argument `x`."""
    try:
        SchemaParameters(take, {"properties": {"x": of}, **more}).read({"x": value})
    except InvalidParams as error:
        return error.data["problems"]
    return []


def constants(keyword: str, count: int, make: Any = int) -> dict[str, Any]:
    return {"items": {keyword: [{"const": make(n)} for n in range(count)]}}


def nested(n: int) -> dict[str, Any]:
    return {"a": [n, {"b": n}]}


HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "objects that are to be unique": ({"uniqueItems": True}, [nested(n) for n in range(200_000)]),
    "anyOf": (constants("anyOf", 1500), [*range(1500)] * 20),
    "anyOf of nothing": (constants("anyOf", 1500), [-1] * 30_000),
    "oneOf": (constants("oneOf", 1500), [*range(1500)] * 20),
    "oneOf with objects": (constants("oneOf", 1500, nested), [nested(-1)] * 30_000),
    "allOf": ({"items": {"allOf": [{"type": "integer"}] * 1500}}, [1] * 30_000),
    "empty schemas": ({"items": {"allOf": [{}] * 1500}}, [1] * 30_000),
    "not": ({"items": {"allOf": [{"not": {"type": "string"}}] * 1500}}, [1] * 30_000),
    "enum": ({"items": {"enum": [nested(n) for n in range(1500)]}}, [nested(1499)] * 200_000),
    "a large object and many constants": (
        {"anyOf": [{"const": nested(n)} for n in range(1500)]},
        [nested(n) for n in range(3000)],
    ),
    "a large object and many enums": ({"allOf": [{"not": {"enum": [[]]}}] * 1500}, [nested(n) for n in range(3000)]),
    "required": ({"items": {"anyOf": [{"required": [f"n{n}" for n in range(1500)]}] * 9}}, [{}] * 100_000),
    "dependencies": ({"items": {"dependentRequired": {f"n{n}": [] for n in range(1500)}}}, [{}] * 30_000),
    "names": ({"allOf": [{"propertyNames": {"maxLength": 9}}] * 9}, {f"n{n}": n for n in range(200_000)}),
    "names of none": (
        {"additionalProperties": {"not": {"type": "string"}}, "propertyNames": {"minLength": 1}},
        {f"n{n}": n for n in range(400_000)},
    ),
    "what is not evaluated": (
        {"anyOf": [{"properties": {f"n{n}": {} for n in range(900)}}], "unevaluatedProperties": False},
        {f"n{n}": n for n in range(90_000)},
    ),
    "items that are not evaluated": ({"contains": {"type": "integer"}, "unevaluatedItems": False}, [1] * 90_000),
    "items of any kind": ({"items": {}}, [1] * 3_000_000),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_would_take_for_ever_is_refused_in_plain_words(kind: str) -> None:
    begun = time.thread_time()
    told = problems(*HOSTILE[kind])
    # One or two seconds, where it took a minute or hours.
    assert time.thread_time() - begun < 15
    assert told == TOO_LONG or (len(told) == 20 and "not valid under any" in told[0]["message"])


ROW: dict[str, Any] = {
    "type": "object",
    "properties": {f"c{n}": {"type": "string", "enum": [f"v{value}" for value in range(10)]} for n in range(10)},
    "required": [f"c{n}" for n in range(10)],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": ROW}, [{f"c{n}": f"v{n}" for n in range(10)}] * 2000),
        (constants("anyOf", 50), [49] * 1000),
        (constants("oneOf", 50), [0, 49] * 500),
        ({"type": "string", "maxLength": 6_000_000, "pattern": "^x"}, "x" * 5_000_000),
        ({"type": "array", "uniqueItems": True}, [{"name": f"n{n}", "at": [n]} for n in range(20_000)]),
        ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, [f"{n}" for n in range(20_000)]),
        ({"type": "array"}, [*range(1_000_000)]),
        (
            {"type": "array", "items": {"properties": {"day": {"pattern": r"^\d{4}-\d\d-\d\d$"}}}},
            [{"day": "2001-01-01"}] * 9000,
        ),
        ({"type": "array", "items": {"type": "integer"}}, [*range(100_000)]),
        ({"enum": list(range(5000))}, 4999),
    ],
    ids=range(10),
)
def test_honest_arguments_are_not_refused_however_many_there_are(schema: dict[str, Any], value: Any) -> None:
    assert problems(schema, value) == []


@pytest.mark.parametrize("schema", [DRAFT_4, DRAFT_6, DRAFT_7, "https://json-schema.org/draft/2019-09/schema", None])
def test_what_is_equal_in_json_is_equal(schema: str | None) -> None:
    more = {"$schema": schema} if schema else {}
    for same in ([1, 1.0], [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], [[], []], [0, -0.0], ["a", "a"], [None, None]):
        assert "non-unique" in problems({"uniqueItems": True}, same, **more)[0]["message"]
    different = [
        1,
        True,
        "1",
        [1],
        {"1": 1},
        0,
        False,
        None,
        "",
        [],
        {},
        [[]],
        [True],
        "0x1",
        2**64,
        2**64 + 1,
        1.5,
        "1.5",
    ]
    assert problems({"uniqueItems": True}, different, **more) == []
    for number, one in enumerate(different):
        for other in different:
            assert (problems({"enum": [one]}, other, **more) == []) == (one is other), number
    assert problems({"enum": [1]}, 1.0, **more) == problems({"enum": [[{"a": 1.0}]]}, [{"a": 1}], **more) == []


def test_a_constant_is_told_from_what_looks_like_it() -> None:
    assert problems({"const": {"a": [1]}}, {"a": [1.0]}) == problems({"const": 1}, 1) == []
    assert problems({"const": {"a": [1]}}, {"a": [True]}) == [{"path": "x", "message": "{'a': [1]} was expected"}]
    assert problems({"const": 1}, [1]) == [{"path": "x", "message": "1 was expected"}]


def test_numbers_cannot_be_made_to_collide() -> None:
    # All of them have one hash in Python.
    assert problems({"uniqueItems": True}, [n * (2**61 - 1) for n in range(20_000)]) == []


def test_alternatives_say_what_they_always_said() -> None:
    of = {"type": "string"}, {"maxLength": 3}
    assert problems({"oneOf": [*of]}, "abcd") == problems({"anyOf": [*of]}, "abc") == []
    assert problems({"oneOf": [*of]}, "abc") == [
        {"path": "x", "message": "'abc' is valid under each of {'maxLength': 3}, {'type': 'string'}"}
    ]
    assert problems({"oneOf": [{"type": "null"}, False]}, "abc") == problems({"anyOf": [{"type": "null"}]}, "abc")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "integer", "enum": [1]},
        {"items": False},
        {"additionalProperties": False},
        {"maxItems": 1, "maxProperties": 1, "maxLength": 1},
        {"anyOf": [{"type": "null"}] * 100},
    ],
)
def test_no_message_quotes_more_than_the_beginning_of_a_large_value(schema: dict[str, Any]) -> None:
    for value in ("x" * 5_000_000, [*range(900_000)], {f"n{n:06}": n for n in range(200_000)}, {"n" * 5_000_000: 1}):
        begun = time.thread_time()
        for problem in problems(schema, value):
            assert len(problem["message"]) <= 300
        assert time.thread_time() - begun < 5


def test_a_multiple_of_the_smallest_numbers_is_told_from_others() -> None:
    assert len(problems({"multipleOf": 1e-300}, 10**400)) == 1
    assert problems({"multipleOf": 0.5}, 10**400) == problems({"multipleOf": 1e-300}, 0) == []
    assert problems({"multipleOf": 0.5}, 10**400 + 1) == []
    assert (
        problems({"multipleOf": 0.1}, float("inf"))
        == problems({"maximum": 3}, 10**5000)
        == [{"path": "", "message": "the arguments have a number that cannot be checked against the schema"}]
    )


@pytest.mark.parametrize("draft", [DRAFT_4, DRAFT_6, DRAFT_7, "https://json-schema.org/draft/2020-12/schema"])
def test_a_schema_that_takes_for_ever_to_be_checked_itself_is_none(draft: str) -> None:
    many = [{"a": n} for n in range(6000)]
    begun = time.thread_time()
    for schema in ({"enum": many}, {"type": many}, {"required": many}, {"properties": {"x": {"type": many}}}):
        try:
            SchemaParameters(take, {"$schema": draft, "properties": {"x": schema}})
        except UsageError:
            pass
    assert time.thread_time() - begun < 20


def test_a_large_schema_is_still_one() -> None:
    names = {f"name{n}": {"type": "string", "enum": ["a", "b"], "description": "some"} for n in range(900)}
    assert problems(names["name1"], "a", properties={"x": {}, **names}) == []


@pytest.mark.anyio
async def test_the_loop_goes_on_while_arguments_are_checked_and_the_turn_goes_on_after_a_refusal() -> None:
    agent = Agent("checked")
    rounds = 0
    results: list[ToolResult] = []

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await anyio.lowlevel.checkpoint()

    @agent.prompt
    async def answer(turn: Turn) -> None:
        turn.session.tools.add(take, input_schema={"properties": {"x": constants("anyOf", 1500)}})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            results.append(await turn.run_tool("take", {"x": [*range(1500)] * 20}))
            tasks.cancel_scope.cancel()
        results.append(await turn.run_tool("take", {"x": [1]}))

    shown = await updates(agent)
    assert [result.status for result in results] == ["failed", "completed"]
    assert results[0].message == "The arguments are invalid: checking the arguments against the schema takes too long"
    assert shown[0]["title"] == "Take them"
    assert rounds > 20


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$schema": "http://json-schema.org/draft-03/schema#", "extends": [{"$ref": "#"}]},
    ],
)
def test_a_schema_that_leads_back_to_itself_is_left_before_a_library_panics(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as caught:
        SchemaParameters(take, schema).read({})
    assert caught.value.data == {
        "problems": [{"path": "", "message": "the arguments or their schema are nested too deeply"}]
    }


@pytest.mark.parametrize("dialect", [["x"], {}, 5])
def test_a_dialect_that_is_not_text_is_a_mistake_of_the_schema(dialect: Any) -> None:
    with pytest.raises(UsageError, match="not a JSON Schema"):
        SchemaParameters(take, {"$schema": dialect})
