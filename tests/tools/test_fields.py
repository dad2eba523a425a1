"""What an author can say of a parameter beyond its type: each form is honoured, or refused at registration."""

import inspect
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Len, Timezone
from pydantic import AfterValidator, Field, PositiveInt, StringConstraints
from typing_extensions import Doc

from acp_server import Agent
from acp_server.errors import InvalidParams, UsageError
from acp_server.tools.tool import Tool


class Colour(Enum):
    """An enumeration."""

    RED = "red"
    BLUE = "blue"


class Depends:
    """What frameworks write in the place of a default."""

    def __init__(self, dependency: Callable[..., Any]) -> None:
        self.dependency = dependency


MISSING: Any = object()


def field_default(n: int = Field(3, ge=1, description="how many")) -> int:
    """A default that is a field."""
    return n


def annotated_field(n: Annotated[int, Field(ge=1, description="how many")] = 3) -> int:
    """A field in Annotated."""
    return n


def default_in_annotated(n: Annotated[int, Field(default=3, ge=1, description="how many")]) -> int:
    """A default in Annotated."""
    return n


def two_defaults(n: Annotated[int, Field(default=8, ge=1, description="how many")] = 3) -> int:
    """Python's default counts."""
    return n


def constraint_and_words(n: Annotated[int, Ge(1), "how many"] = 3) -> int:
    """A text in Annotated."""
    return n


def constraint_and_doc(n: Annotated[int, Ge(1), Doc("how many")] = 3) -> int:
    """A Doc in Annotated."""
    return n


def both(n: Annotated[int, Ge(1)] = Field(3, description="how many")) -> int:
    """Half here, half there."""
    return n


def factory(n: int = Field(default_factory=lambda: 3, ge=1, description="how many")) -> int:
    """A default that is made at each call."""
    return n


HONOURED: list[Callable[..., int]] = [
    *(field_default, annotated_field, default_in_annotated, two_defaults, constraint_and_words, constraint_and_doc),
    both,
    factory,
]


@pytest.mark.parametrize("function", HONOURED, ids=lambda function: function.__name__)
def test_bounds_words_and_defaults_of_a_parameter_hold_in_every_form(function: Callable[..., int]) -> None:
    tool = Tool(function)
    said = dict(tool.input_schema["properties"]["n"])
    if function is factory:
        said["default"] = 3  # pydantic does not call it for the schema
    assert said == {"type": "integer", "minimum": 1, "default": 3, "description": "how many"}
    assert "required" not in tool.input_schema
    assert tool.function(**tool.read({})) == 3
    assert tool.function(**tool.read({"n": 5})) == 5
    with pytest.raises(InvalidParams):
        tool.read({"n": -5})


def test_a_field_without_a_default_is_required() -> None:
    def look(n: int = Field(ge=1), m: int = Field(...), k: Annotated[int, Field(...)] = Field(lt=9)) -> None:
        """Look."""

    tool = Tool(look)
    assert tool.input_schema["required"] == ["n", "m", "k"]
    assert tool.input_schema["properties"]["k"]["exclusiveMaximum"] == 9
    with pytest.raises(InvalidParams):
        tool.read({"n": 1, "m": 1})


def test_the_name_on_the_wire_may_be_an_alias() -> None:
    def look(path: str = Field(alias="filePath"), most: Annotated[int, Field(alias="maxLines")] = 3) -> str:
        """Look."""
        return f"{path}:{most}"

    tool = Tool(look)
    assert [*tool.input_schema["properties"]] == ["filePath", "maxLines"]
    assert tool.input_schema["properties"]["maxLines"]["default"] == 3
    assert tool.function(**tool.read({"filePath": "a"})) == "a:3"
    assert tool.function(**tool.read({"path": "a", "most": 4})) == "a:4"


def test_words_inside_of_a_type_reach_the_schema() -> None:
    def look(
        files: list[Annotated[str, "a path"]],
        size: Annotated[int, Doc("in bytes")] | None = None,
        name: Annotated[str, StringConstraints(min_length=2)] = "ab",
    ) -> None:
        """Look."""

    properties = Tool(look).input_schema["properties"]
    assert properties["files"]["items"]["description"] == "a path"
    assert {"type": "integer", "description": "in bytes"} in properties["size"]["anyOf"]
    assert properties["name"] == {"type": "string", "minLength": 2, "default": "ab"}


def test_defaults_of_other_types_reach_the_schema_as_json() -> None:
    def look(
        colour: Colour = Colour.BLUE,
        path: Path = Path("a"),
        tags: list[str] = ["x"],  # noqa: B006 - the default is what is tested
        mode: Literal["r", "w"] = "r",
        share: float = 1,
        none: int | None = None,
        unset: int = MISSING,
        count: PositiveInt = 0,
    ) -> None:
        """Look."""

    properties = Tool(look).input_schema["properties"]
    defaults = {name: each.get("default", "absent") for name, each in properties.items()}
    assert defaults == {
        "colour": "blue",
        "path": "a",
        "tags": ["x"],
        "mode": "r",
        "share": 1,
        "none": None,
        "unset": "absent",
        "count": 0,
    }
    assert Tool(look).read({}) == {"count": 0}


def test_validators_run() -> None:
    def doubled(n: int) -> int:
        return 2 * n

    def look(n: int = Field(1), m: Annotated[int, AfterValidator(doubled)] = 1) -> None:
        """Look."""

    assert Tool(look).read({"m": 4}) == {"n": 1, "m": 8}


def wrong_text(n: int = "three") -> None:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    """A text for a number."""


def wrong_none(n: int = None) -> None:  # type: ignore[assignment]  # noqa: RUF013  # pyright: ignore[reportArgumentType]
    """None for a number."""


def wrong_ellipsis(n: int = ...) -> None:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    """What FastAPI once took for "required"."""


def wrong_enum(n: Colour = "red") -> None:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    """The value of an enumeration for its member."""


def wrong_literal(n: Literal["a", "b"] = "c") -> None:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    """A word that is not among those."""


def wrong_items(n: list[int] = ["a"]) -> None:  # type: ignore[list-item]  # noqa: B006  # pyright: ignore[reportArgumentType]
    """Items of another type."""


def wrong_path(n: Path = "a") -> None:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    """A text for a path."""


def wrong_bool(n: int = True) -> None:
    """A truth for a number."""


def wrong_in_annotated(n: Annotated[int, Field(ge=1)] = "3") -> None:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    """A text for a number with bounds."""


def depends(n: Any = Depends(list)) -> None:  # noqa: B008
    """A marker of a framework."""


def depends_untyped(n=Depends(list)) -> None:  # type: ignore[no-untyped-def]  # noqa: B008
    """A marker without a type."""


def depends_in_annotated(n: Annotated[int, Depends(list)]) -> None:
    """A marker in Annotated."""


def timezone(n: Annotated[str, Timezone("UTC")]) -> None:
    """A constraint that pydantic skips."""


def nested(n: list[Annotated[int, Depends(list)]]) -> None:
    """A marker inside of a type."""


REFUSED: dict[Callable[..., Any], str] = {
    wrong_text: "the default of n is 'three', which is not of its type, int",
    wrong_none: "the default of n is None, which is not of its type, int; write int | None",
    wrong_ellipsis: "the default of n is Ellipsis, which is not of its type, int",
    wrong_enum: "the default of n is 'red'",
    wrong_literal: "the default of n is 'c'",
    wrong_items: "the default of n is a list",
    wrong_path: "the default of n is 'a'",
    wrong_bool: "the default of n is True",
    wrong_in_annotated: "the default of n is '3', which is not of its type, int",
    depends: "the default of n is a Depends",
    depends_untyped: "the default of n is a Depends",
    depends_in_annotated: "the Depends in the annotation of n has no effect",
    timezone: "the Timezone in the annotation of n has no effect",
    nested: "the Depends in the annotation of n has no effect",
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_what_would_have_no_effect_is_refused_at_registration(function: Callable[..., Any]) -> None:
    with pytest.raises(UsageError) as refused:
        Agent("forms").tool(function)
    assert REFUSED[function] in str(refused.value)

    def own(call: Any, **_: Any) -> None:
        """A method with the same parameter."""

    first = inspect.signature(own).parameters["call"]
    own.__signature__ = inspect.Signature([first, *inspect.signature(function).parameters.values()])  # type: ignore[attr-defined]
    with pytest.raises(UsageError) as refused:
        Agent("forms").method("_own")(own)
    assert REFUSED[function] in str(refused.value)


def test_lists_keep_their_bounds() -> None:
    def look(words: Annotated[list[str], Len(1, 2)] = Field(["a"])) -> None:  # noqa: B008
        """Look."""

    with pytest.raises(InvalidParams):
        Tool(look).read({"words": []})
