"""A tool takes what a model can write, and says at its registration which parameter is something else."""

from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, PlainValidator, WithJsonSchema
from typing_extensions import TypedDict

from acp_server import Agent, Client, Session, ToolContext, Turn
from acp_server.errors import UsageError
from acp_server.testing import memory_pair
from acp_server.tools.editor import Editor


class Notes:
    def look(self, word: str) -> str:
        "Look."
        return word


class Point(NamedTuple):
    x: int


class Place(TypedDict):
    path: str


class Model(BaseModel):
    x: int


Written = Annotated[Notes, PlainValidator(lambda _: Notes()), WithJsonSchema({"type": "string"})]


@pytest.mark.parametrize(
    ("annotation", "cure"),
    [
        (Turn, "Turn that the parameter it takes; use call.turn of a parameter `call: ToolContext` instead"),
        ("Turn", "use call.turn of a parameter"),
        (Session | None, "use call.session of a parameter"),
        (Client, "use call.client of a parameter"),
        (Editor, "use call.editor of a parameter"),
        (list[Notes], "Notes that the parameter it takes; use a type that JSON can express instead"),
        (dict[str, Notes | None], "Notes that the parameter it takes"),
        (ToolContext | None, "ToolContext that the parameter it takes"),
    ],
)
def test_a_type_that_no_model_can_write_is_refused_with_its_parameter(annotation: Any, cure: str) -> None:
    async def look(word: str, it: Any) -> str:
        return word

    look.__annotations__["it"] = annotation
    with pytest.raises(UsageError, match=f"look: no model can write the .*{cure}"):
        Agent("a").tool(look)


@pytest.mark.parametrize(
    "annotation",
    [IPv4Address, Point, Place, Model, Written, list[Model | None], dict[str, Place], "Model | int", list[int], Any],
)
def test_a_type_that_pydantic_knows_is_taken_and_described(annotation: Any) -> None:
    async def look(it: Any) -> str:
        return ""

    look.__annotations__["it"] = annotation
    assert "it" in Agent("a").tool(look).describe()["input_schema"]["properties"]


def test_a_method_without_its_object_is_no_tool_and_one_with_it_is() -> None:
    agent = Agent("a")
    with pytest.raises(UsageError, match=r"Notes\.look is the method of a class; .+ agent\.tool\(notes\.look\)"):
        agent.tool(Notes.look)
    tool = agent.tool(Notes().look)
    assert list(tool.input_schema["properties"]) == ["word"]


def test_a_schema_that_cannot_be_made_is_refused_with_the_name_of_the_parameter() -> None:
    async def look(word: str, key: Callable[[int], int]) -> str:
        return word

    tool = Agent("a").tool(look)
    with pytest.raises(UsageError, match=r"look: the parameter key: Cannot generate a JsonSchema"):
        tool.describe()


def test_a_type_that_is_defined_later_is_refused_before_a_client_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(at: Any) -> str:
        return str(at)

    look.__annotations__["at"] = "Later"
    agent = Agent("a")
    agent.tool(look)
    monkeypatch.setitem(globals(), "Later", Notes)
    with pytest.raises(UsageError, match="no model can write the Notes that the parameter at takes"):
        agent.connect(memory_pair()[1])
