"""Types that are called plain are such that pydantic builds a check for them, whatever they are made of."""

import collections.abc
import dataclasses
import datetime as dt
import enum
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, TypeAdapter

from acp_server.tools.parameters import is_plain


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Tree:
    name: str
    kind: Color = Color.RED
    children: "list[Tree]" = dataclasses.field(default_factory=list["Tree"])


@dataclasses.dataclass
class Lost:
    a: "Nowhere"  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


@dataclasses.dataclass
class Holder:
    a: Lost


class Loose:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise TypeError("no schema today")


class Point(BaseModel):
    x: int


class Old(TypedDict):
    x: int


LEAVES: list[Any] = [
    *(str, int, float, bool, bytes, object, list, dict, tuple, set, frozenset, None, Any, type(None)),
    *(Color, Level, Tree, Lost, Holder, Loose, Point, Old, complex),
    *(pathlib.Path, dt.datetime, dt.tzinfo, Callable[[int], int], "Nowhere", 5, ...),
    *(Literal["a", 1, None], Literal[()], Literal[Color.RED], Annotated[int, "small"]),
]


def made_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, max_size=3).map(tuple)
    origins: list[Any] = [list, set, frozenset, tuple, dict, collections.abc.Sequence, collections.abc.Mapping]
    return st.one_of(
        st.builds(types.GenericAlias, st.sampled_from(origins), several),
        st.builds(lambda some: types.GenericAlias(tuple, (*some, ...)), several),
        st.builds(lambda a, b: a | b, st.sampled_from([int, Tree, Lost]), st.sampled_from([str, Color, Loose, None])),
    )


@example(Tree)
@given(st.recursive(st.sampled_from(LEAVES), made_of, max_leaves=6))
def test_a_check_of_a_plain_type_can_be_built(annotation: Any) -> None:
    if is_plain(annotation):
        # Inside of another type, as a parameter is: a model by itself has a config of its own.
        inside: Any = types.GenericAlias(list, (annotation,))
        TypeAdapter[Any](inside, config=ConfigDict(arbitrary_types_allowed=True))


@pytest.mark.parametrize(
    "annotation",
    [
        *(str, None, Any, Tree, Color, Level, pathlib.Path, dt.date, list[int], tuple[()], tuple[int, ...]),
        *(dict[str, list[Tree]], int | None, Literal["a", "b"], collections.abc.Mapping[str, Any]),
    ],
    ids=str,
)
def test_what_methods_usually_take_is_plain(annotation: Any) -> None:
    assert is_plain(annotation)


@pytest.mark.parametrize(
    "annotation",
    [
        *(Lost, Holder, list[Loose], Loose, Point, Old, list["Nowhere"], Literal[()], 5, "Nowhere", complex),  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        *(types.GenericAlias(dict, (int,)), types.GenericAlias(tuple, (..., int)), Annotated[int, "small"]),
        *(int | Lost, Loose | None),
    ],
    ids=str,
)
def test_what_pydantic_may_refuse_is_not(annotation: Any) -> None:
    assert not is_plain(annotation)


FURNISHED = """
import sys
from dataclasses import dataclass
from acp_server import Agent, Call, ToolContext

@dataclass
class Place:
    path: str
    line: int | None = None

agent = Agent("furnished")

@agent.method("_own")
async def own(call: Call, places: "list[Place]", deep: bool = False) -> None: ...

@agent.notification("_heard")
def heard(connection, what: str) -> None: ...

@agent.tool(approval=True)
async def look(path: str, call: ToolContext, lines: list[int] | None = None) -> str: ...

print(sorted({name.partition(".")[0] for name in sys.modules} & {"pydantic", "pydantic_core", "jsonrpcserver"}))
"""


def test_registering_methods_and_tools_of_plain_types_does_not_load_pydantic() -> None:
    done = subprocess.run([sys.executable, "-c", FURNISHED], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[]\n"
