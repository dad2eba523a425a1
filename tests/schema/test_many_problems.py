"""A message in which very much is wrong costs little: to find out, to tell, and to leave out."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import pytest
from pydantic import BaseModel, ValidationError

from acp_server import schema
from acp_server.errors import InvalidParams, MalformedResponse
from acp_server.schema import v2
from acp_server.schema.base import tolerantly
from acp_server.schema.reading import explain, from_wire, read, read_result
from acp_server.tools.parameters import Parameters
from tests.each import each

COLLECTIONS = ("list", "dict", "set", "frozenset", "tuple")  # those that the protocol has
TYPES = [
    getattr(package, name)
    for package in (schema, v2)
    for name in dir(package)
    if isinstance(getattr(package, name), type) and issubclass(getattr(package, name), BaseModel)
]
MANY = [0] * 300_000


def collections(value: Any) -> Iterator[dict[str, Any]]:
    """What in a schema of pydantic's takes any number of items."""
    if isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from collections(item)
    elif isinstance(value, dict):
        part = cast("dict[str, Any]", value)
        if part.get("type") in COLLECTIONS:
            yield part
        for key, item in part.items():
            if key not in ("metadata", "serialization"):
                yield from collections(item)


@each(TYPES)
def test_a_check_ends_at_the_first_wrong_item_of_any_collection(kind: type[BaseModel]) -> None:
    kind.model_rebuild()
    whole: Any = kind.__pydantic_core_schema__
    assert [part for part in collections(whole) if not part.get("fail_fast")] == []


def test_there_are_collections_to_look_at() -> None:
    schema.ToolCall.model_rebuild()
    whole: Any = schema.ToolCall.__pydantic_core_schema__
    assert len(list(collections(whole))) > 2


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (schema.PromptRequest, {"sessionId": "s", "prompt": MANY}),
        (schema.NewSessionRequest, {"cwd": "/", "mcpServers": MANY}),
        (v2.PromptRequest, {"sessionId": "s", "prompt": MANY}),
        (schema.ElicitationSchema, {"type": "object", "properties": dict.fromkeys(map(str, MANY), 1)}),
    ],
)
def test_what_is_told_of_many_wrong_items_is_short(kind: type[BaseModel], params: Any) -> None:
    with pytest.raises(InvalidParams) as refused:
        read(kind, params)
    assert len(refused.value.data["problems"]) == 1
    with pytest.raises(MalformedResponse) as malformed:
        read_result(kind, "a/method", params)
    assert len(str(malformed.value)) < 1000


def test_what_is_told_of_many_wrong_arguments_of_an_authors_method_is_short() -> None:
    def add(numbers: list[int], names: dict[str, int]) -> None: ...

    with pytest.raises(InvalidParams) as refused:
        Parameters(add, lambda _: False).read({"numbers": ["one", "two"], "names": {"a": "x", "b": "y"}})
    assert [each["path"] for each in refused.value.data["problems"]] == ["numbers[0]", "names.a"]


class Numbers(BaseModel):
    numbers: list[int]


@dataclass
class Plain:
    numbers: list[int]


class Tree(BaseModel):
    below: list["Tree"] = []


WRONG = {"numbers": ["one", "two"]}


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (Numbers, WRONG, "it.numbers[0]"),
        (Plain, WRONG, "it.numbers[0]"),
        (Tree, {"below": [{"below": [1, 2]}, 3]}, "it.below[0].below[0]"),
        (list[Numbers], [WRONG, WRONG], "it[0].numbers[0]"),
        (deque[int], ["one", "two"], "it[0]"),
        (OrderedDict[str, int], {"a": "x", "b": "y"}, "it.a"),
        (Counter[str], {"a": "x", "b": "y"}, "it.a"),
    ],
)
def test_an_argument_of_any_type_of_the_authors_is_checked_to_its_first_wrong_item(
    kind: Any, value: Any, path: str
) -> None:
    def take(it: Any) -> None: ...

    take.__annotations__["it"] = kind
    with pytest.raises(InvalidParams) as refused:
        Parameters(take, lambda _: False).read({"it": value})
    assert [each["path"] for each in refused.value.data["problems"]] == [path]


class Corner(tuple[int, int], Enum):
    """One whose members are collections themselves."""

    LOW = (0, 0)
    HIGH = (9, 9)


def test_a_member_of_an_enumeration_of_tuples_is_read() -> None:
    def mark(at: Corner) -> None: ...

    assert Parameters(mark, lambda _: False).read({"at": (9, 9)}) == {"at": Corner.HIGH}


def test_of_very_many_problems_only_their_number_is_told() -> None:
    class Wide(BaseModel):
        numbers: list[int]

    with pytest.raises(ValidationError) as wrong:
        Wide.model_validate({"numbers": ["x"] * 101})
    assert explain(wrong.value) == [{"path": "", "message": "101 problems"}]


def plan(wrong: int, right: int = 0) -> dict[str, Any]:
    entry = {"content": "c", "priority": "high", "status": "pending"}
    return {"sessionUpdate": "plan", "entries": [0] * wrong + [entry] * right}


def test_a_hundred_wrong_items_are_left_out_of_a_list() -> None:
    assert len(schema.Plan.from_wire(plan(100, 100)).entries) == 100


def test_very_many_wrong_items_are_not_left_out_one_by_one() -> None:
    with pytest.raises(ValidationError) as wrong:
        schema.Plan.from_wire(plan(100_000))
    assert wrong.value.error_count() == 1
    with pytest.raises(ValidationError) as wrong:
        from_wire(schema.SessionUpdate, plan(100_000))
    assert wrong.value.error_count() == 1


def test_wrong_items_of_a_long_list_are_left_out_if_they_are_few() -> None:
    assert len(schema.Plan.from_wire(plan(3, 5_000)).entries) == 5_000


def test_no_more_is_looked_at_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    class Counted:
        def validate_python(self, data: Any, **options: Any) -> Any:
            looked_at.append(len(data["entries"]))
            return schema.Plan.__pydantic_validator__.validate_python(data, **options)

    monkeypatch.setattr("acp_server.schema.reading._MOST_LOOKED_AT", 10_000)
    with pytest.raises(ValidationError):
        tolerantly(schema.Plan, Counted(), plan(900, 50))
    # 1,102 values at first, four for each entry that is right.
    assert 1 < len(looked_at) <= 10
