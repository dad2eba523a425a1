"""What a tool takes, as a JSON Schema from elsewhere says it: from a server of tools, or a file.

How long the check may take is the matter of `acp_server.tools.schema_bounds`.
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
"""The one parameter of the function that gets them."""

_PROBLEMS: Final = 20
"""How many problems a model is told of at once."""

_NO_OTHERS: Final[Any] = cast("Any", Registry)()

_SCHEMA_STEPS: Final = 20_000_000
"""Of the check of a schema itself. That of the largest which a server of tools may have takes a tenth of them."""

_MESSAGE: Final = 300
"""Characters of one of them, and of its place: they repeat what does not fit, and the names around it."""


class SchemaParameters:
    """See `acp_server.tools.tool.Arguments`. References in the schema are followed inside of it, and nowhere else.

    Raises UsageError for what is not a schema of an object, and for a function without a parameter `arguments`.
    """

    is_slow: Final = True

    def __init__(self, function: Callable[..., Any], schema: Mapping[str, Any]) -> None:
        if not callable(function) or _ARGUMENTS not in signature_of(function).parameters:
            raise UsageError(f"{name_of(function)} gets what a schema describes as `{_ARGUMENTS}`, and must take that")
        # A copy: what was checked is what is told.
        self._schema = deepcopy(dict(schema))
        if self._schema.setdefault("type", "object") != "object":
            raise UsageError(f"the arguments of a tool are an object, not {self._schema['type']!r}")
        if not isinstance(self._schema.get("$schema", ""), str):
            raise UsageError("this is not a JSON Schema: its $schema is not text")
        kind = validator_for(self._schema, default=Draft202012Validator)
        if (problem := schema_problem(kind, self._schema, _SCHEMA_STEPS)) is not None:
            raise UsageError(f"this is not a JSON Schema: {problem}")
        # Without this registry it would fetch what a schema refers to from the network.
        self._bounds = Bounds()
        self._validator: Any = self._bounds.validator(kind, self._schema, registry=_NO_OTHERS)

    @property
    def json_schema(self) -> dict[str, Any]:
        """The schema."""
        return deepcopy(self._schema)

    def read(self, params: Any) -> dict[str, Any]:
        """See `Arguments.read`."""
        arguments: Any = dict(cast("Mapping[str, Any]", params)) if isinstance(params, Mapping) else params
        try:
            checked = self._bounds.begin(arguments)
            problems = [_told(error) for error in islice(self._validator.iter_errors(checked), _PROBLEMS)]
        except Unresolvable as error:
            problems = [{"path": "", "message": f"the schema refers to what is not in it: {error.ref}"[:_MESSAGE]}]
        except TooMuch as error:
            problems = [{"path": "", "message": str(error)}]
        except RecursionError:
            problems = [{"path": "", "message": "too deeply nested"}]
        except (ArithmeticError, ValueError):
            # An integer of thousands of digits that is to be quoted, for example.
            problems = [{"path": "", "message": "a number in them cannot be checked against the schema"}]
        if problems:
            raise InvalidParams(data={"problems": problems})
        return {_ARGUMENTS: arguments}


def _told(error: ValidationError) -> dict[str, str]:
    return {"path": place_of(error.absolute_path)[:_MESSAGE], "message": error.message[:_MESSAGE]}
