"""Validates the arguments of a tool against an external JSON Schema, for example one from an MCP server or a file.

`acp_server.tools.schema_bounds` bounds the time of a check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import islice
from typing import Any, Final, cast

from jsonschema import ValidationError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from acp_server.errors import InvalidParams, UsageError
from acp_server.schema.reading import place_of
from acp_server.signatures import signature_of
from acp_server.tools.parameters import name_of
from acp_server.tools.schema_bounds import Bounds, TooMuch, schema_problem

_ARGUMENTS: Final = "arguments"
"""The name of the function's parameter that gets all arguments, as a dict."""

_PROBLEMS: Final = 20
"""The most problems in one message to a model."""

_NO_OTHERS: Final[Any] = cast("Any", Registry)()

_SCHEMA_STEPS: Final = 20_000_000
"""The most steps for checking a schema itself. The largest schema that an MCP server may send takes a tenth of them."""

_MESSAGE: Final = 300
"""The most characters of a problem's message, and of its path. Both quote text from the arguments."""


class SchemaParameters:
    """The arguments of a tool that a JSON Schema describes, see `acp_server.tools.tool.Arguments`. References are
    resolved only inside the schema.

    Raises UsageError if the schema is invalid or does not describe an object, and if the function has no parameter
    `arguments`.
    """

    is_slow: Final = True

    def __init__(self, function: Callable[..., Any], schema: Mapping[str, Any]) -> None:
        if not callable(function) or _ARGUMENTS not in signature_of(function).parameters:
            raise UsageError(
                f"{name_of(function)} needs a parameter `{_ARGUMENTS}`, because the arguments of its schema are "
                "passed there"
            )
        # A copy, so that the model gets the schema that was checked.
        self._schema = deepcopy(dict(schema))
        if self._schema.setdefault("type", "object") != "object":
            raise UsageError(
                f"the schema of a tool's arguments must have the type 'object', not {self._schema['type']!r}"
            )
        if not isinstance(self._schema.get("$schema", ""), str):
            raise UsageError("not a JSON Schema: $schema must be a string")
        kind = validator_for(self._schema, default=Draft202012Validator)
        if (problem := schema_problem(kind, self._schema, _SCHEMA_STEPS)) is not None:
            raise UsageError(f"not a JSON Schema: {problem}")
        # An empty registry: by default, jsonschema fetches remote references from the network.
        self._bounds = Bounds()
        self._validator: Any = self._bounds.validator(kind, self._schema, registry=_NO_OTHERS)

    @property
    def json_schema(self) -> dict[str, Any]:
        """A copy of the schema."""
        return deepcopy(self._schema)

    def read(self, params: Any) -> dict[str, Any]:
        """See `Arguments.read`."""
        arguments: Any = dict(cast("Mapping[str, Any]", params)) if isinstance(params, Mapping) else params
        try:
            checked = self._bounds.begin(arguments)
            problems = [_told(error) for error in islice(self._validator.iter_errors(checked), _PROBLEMS)]
        except Unresolvable as error:
            problems = [
                {"path": "", "message": f"the schema has no definition for its reference {error.ref}"[:_MESSAGE]}
            ]
        except TooMuch as error:
            problems = [{"path": "", "message": str(error)}]
        except RecursionError:
            problems = [{"path": "", "message": "the arguments or their schema are nested too deeply"}]
        except (ArithmeticError, ValueError):
            # Quoting an integer of thousands of digits raises, for example.
            problems = [
                {"path": "", "message": "the arguments have a number that cannot be checked against the schema"}
            ]
        if problems:
            raise InvalidParams(data={"problems": problems})
        return {_ARGUMENTS: arguments}


def _told(error: ValidationError) -> dict[str, str]:
    return {"path": place_of(error.absolute_path)[:_MESSAGE], "message": error.message[:_MESSAGE]}
