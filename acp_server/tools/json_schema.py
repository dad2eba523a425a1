"""What a tool takes, as a JSON Schema from elsewhere says it: from a server of tools, or a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import islice
from typing import Any, Final, cast

from jsonschema import ValidationError
from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from acp_server.errors import InvalidParams, UsageError
from acp_server.tools.parameters import name_of
from acp_server.tools.patterns import Patterns

_ARGUMENTS: Final = "arguments"
"""The one parameter of the function that gets them."""

_PROBLEMS: Final = 20
"""How many problems a model is told of at once."""

_NO_OTHERS: Final[Any] = cast("Any", Registry)()

_MESSAGE: Final = 300
"""Characters of one of them: it repeats what does not fit."""


class SchemaParameters:
    """See `acp_server.tools.tool.Arguments`. References in the schema are followed inside of it, and nowhere else.

    Raises UsageError for what is not a schema of an object, and for a function without a parameter `arguments`.
    """

    def __init__(self, function: Callable[..., Any], schema: Mapping[str, Any]) -> None:
        if not callable(function) or _ARGUMENTS not in inspect.signature(function).parameters:
            raise UsageError(f"{name_of(function)} gets what a schema describes as `{_ARGUMENTS}`, and must take that")
        # A copy: what was checked is what is told.
        self._schema = deepcopy(dict(schema))
        if self._schema.setdefault("type", "object") != "object":
            raise UsageError(f"the arguments of a tool are an object, not {self._schema['type']!r}")
        kind = validator_for(self._schema, default=Draft202012Validator)
        try:
            kind.check_schema(self._schema)
        except SchemaError as error:
            raise UsageError(f"this is not a JSON Schema: {error.message}") from error
        # Without this registry it would fetch what a schema refers to from the network.
        self._patterns = Patterns()
        self._validator: Any = self._patterns.validator(kind, self._schema, registry=_NO_OTHERS)

    @property
    def json_schema(self) -> dict[str, Any]:
        """The schema."""
        return deepcopy(self._schema)

    def read(self, params: Any) -> dict[str, Any]:
        """See `Arguments.read`."""
        arguments: Any = dict(cast("Mapping[str, Any]", params)) if isinstance(params, Mapping) else params
        self._patterns.begin()
        try:
            problems = [_told(error) for error in islice(self._validator.iter_errors(arguments), _PROBLEMS)]
        except Unresolvable as error:
            problems = [{"path": "", "message": f"the schema refers to what is not in it: {error.ref}"[:_MESSAGE]}]
        except TimeoutError:
            problems = [{"path": "", "message": "a pattern of the schema takes too long to match"}]
        except RecursionError:
            problems = [{"path": "", "message": "too deeply nested"}]
        if problems:
            raise InvalidParams(data={"problems": problems})
        return {_ARGUMENTS: arguments}


def _told(error: ValidationError) -> dict[str, str]:
    path = ""
    for step in error.absolute_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return {"path": path, "message": error.message[:_MESSAGE]}
