"""Reads the parameters of a request into a type of `acp_server.schema`, with an error that says what is wrong."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, TypeVar

from pydantic import ValidationError

from acp_server.errors import InvalidParams
from acp_server.peer.context import Call
from acp_server.schema.base import Record

T = TypeVar("T", bound=Record)


def read(kind: type[T], call: Call) -> T:
    """The call's parameters. Raises InvalidParams, whose data lists each problem with its place, but not the input."""
    try:
        return kind.from_wire(call.params)
    except ValidationError as error:
        from acp_server.schema.problems import explain

        raise InvalidParams(data={"problems": explain(error)}) from None


def absolute(path: str, name: str) -> str:
    """`path`, if it is absolute. Raises InvalidParams (ACP, Session Setup: working directory)."""
    if "\0" in path or not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()):
        raise InvalidParams(data={"problems": [{"path": name, "message": "must be an absolute path"}]})
    return path


def problem(path: str, message: str, **data: Any) -> InvalidParams:
    """An InvalidParams about one field."""
    return InvalidParams(data={"problems": [{"path": path, "message": message}], **data})
