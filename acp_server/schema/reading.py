"""Reads what a peer sent as any type of the protocol, unions included, and says what is wrong with it.

What is wrong is told in words fit for the peer that sent it: places and reasons, no values.
"""

from functools import cache
from typing import Any, TypeVar, cast, overload

from pydantic import TypeAdapter, ValidationError

from acp_server.schema import area_of
from acp_server.schema.base import Record

R = TypeVar("R", bound=Record)


@overload
def from_wire(kind: type[R], data: Any) -> R: ...
@overload
def from_wire(kind: Any, data: Any) -> Any: ...
def from_wire(kind: Any, data: Any) -> Any:
    """Read `data`, a parsed JSON value, as `kind`: a class such as `Plan`, or a union such as `SessionUpdate`.

    As tolerant as `Record.from_wire`. Raises `pydantic.ValidationError`.
    """
    if isinstance(kind, type):
        return cast("type[Record]", kind).from_wire(data)
    validator = _adapter(kind).validator
    try:
        return validator.validate_python(data, by_alias=True, by_name=False)
    except ValidationError as error:
        from acp_server.schema.forgive import forgiven

        data = forgiven(kind, data, error)
        return validator.validate_python(data, by_alias=True, by_name=False)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def explain(error: ValidationError) -> list[dict[str, str]]:
    """One `{"path": "prompt[0].text", "message": "Field required"}` for each problem; "" is the whole."""
    return [
        {"path": _path(detail["loc"]), "message": detail["msg"]}
        for detail in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _path(location: tuple[str | int, ...]) -> str:
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not _is_class(step):  # The name of a class says which member of a union was read, not a place.
            path += f".{step}" if path else step
    return path


def _is_class(step: str) -> bool:
    from acp_server.schema import v2  # Here, because only an error needs its table of names.

    return area_of(step) is not None or v2.area_of(step) is not None
