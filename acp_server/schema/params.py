"""Reads the parameters and the results that a peer sent into a type of the schema, or raises an error for its answer.

It costs nothing to import: pydantic is loaded when something is read.
"""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, TypeVar

from acp_server.errors import InvalidParams, MalformedResponse

if TYPE_CHECKING:
    from pydantic import ValidationError

    from acp_server.schema.base import Record

T = TypeVar("T", bound="Record")


def read(kind: type[T], params: Any) -> T:
    """The parameters of a request. Raises InvalidParams, whose data lists each problem with its place, but not the
    input."""
    from pydantic import ValidationError

    try:
        return kind.from_wire(params)
    except ValidationError as error:
        raise _invalid(error) from None


def read_as(kind: Any, params: Any) -> Any:
    """The same for a union of types."""
    from pydantic import ValidationError

    from acp_server.schema import from_wire

    try:
        return from_wire(kind, params)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> InvalidParams:
    from acp_server.schema.reading import explain

    return InvalidParams(data={"problems": explain(error)})


def read_result(kind: Any, method: str, result: Any) -> Any:
    """The result of a request of ours as `kind`, a class or a union. Raises MalformedResponse."""
    from pydantic import ValidationError

    from acp_server.schema import from_wire

    try:
        return from_wire(kind, result)
    except ValidationError as error:
        from acp_server.schema.reading import explain

        problems = "; ".join(f"{problem['path']}: {problem['message']}".lstrip(": ") for problem in explain(error))
        raise MalformedResponse(method, problems) from None


def absolute(path: str, name: str, longest: int | None = None) -> str:
    """`path`, if it is absolute and has `longest` characters at most. Raises InvalidParams (ACP, Session Setup: working
    directory)."""
    if longest is not None and len(path) > longest:
        raise problem(name, f"is longer than {longest} characters")
    if "\0" in path or not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()):
        raise InvalidParams(data={"problems": [{"path": name, "message": "must be an absolute path"}]})
    return path


def problem(path: str, message: str, **data: Any) -> InvalidParams:
    """An InvalidParams about one field."""
    return InvalidParams(data={"problems": [{"path": path, "message": message}], **data})
