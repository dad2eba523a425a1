"""The versions of the protocol, each with its types and its methods.

Version 1 is always registered, since the rest of the runtime uses its types. The package of a later version registers
itself when it is imported; no lower package names it.

`acp_server.session.versions` and `acp_server.client.versions` use the versions. The types of a version are imported
when they are used, so that importing this module costs little.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from acp_server import schema

if TYPE_CHECKING:
    from acp_server.schema.base import Record
    from acp_server.schema.methods import Method


class Version(NamedTuple):
    """One version of the protocol."""

    number: int
    """The value of `protocolVersion` in `initialize`."""
    package: ModuleType
    """The package that contains the version's types, such as `acp_server.schema`."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """The version's methods, by their names on the wire."""
        return self.package.METHODS

    def has_type(self, name: str) -> bool:
        """Whether a type of this version has this name. Imports no type."""
        return self.package.area_of(name) is not None


_VERSIONS: Final = {1: Version(1, schema)}


def register(version: Version) -> None:
    """Add a version."""
    _VERSIONS[version.number] = version


def versions() -> list[Version]:
    """Return all registered versions, by number."""
    return [_VERSIONS[number] for number in sorted(_VERSIONS)]


@cache
def answer_of_none(method: str) -> dict[str, Any] | None:
    """Return the result for a handler that returns None. It is an empty object for a protocol method whose result may
    be empty, in any version; else null."""
    known = next((version.methods[method] for version in versions() if method in version.methods), None)
    if known is None or not isinstance(known.result_type, type):
        return None
    kind = cast("type[Record]", known.result_type)
    return None if any(field.is_required() for field in kind.model_fields.values()) else {}
