"""Reading a received value as any type of the protocol, unions included."""

from functools import cache
from typing import Any, TypeVar, cast, overload

from pydantic import TypeAdapter, ValidationError

from acp_server.schema.base import Record

__all__ = [
    "from_wire",
]

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
