"""`assistant_tool.json`: a tool's description, its parameters, and whether a user must approve it.

This module reads and validates the manifest, and validates arguments against it. `acp_server.apps.assistant` decides
what the keys do.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, Field, StrictBool, ValidationError, field_validator

from acp_server import InvalidParams, UsageError
from acp_server.apps.assistant.manifest_parameter import Name, Parameter, Part, excerpt
from acp_server.schema import place_of

logger: logging.Logger = logging.getLogger("acp_server.tools")

FILE_NAME: Final = "assistant_tool.json"


class ManifestError(UsageError):
    """Raised for a manifest that cannot be used.

    `problems`: one `{"path": "parameters[0].type", "message": ...}` for each invalid key. The path "" means the whole
    manifest.
    """

    def __init__(self, source: str, problems: list[dict[str, str]]) -> None:
        self.source = source
        self.problems = problems
        text = "; ".join(f"{problem['path']} {problem['message']}".strip() for problem in problems)
        super().__init__(f"{source} is not the manifest of a tool: {text}")


def _is_said(text: str) -> str:
    if not text.strip():
        raise ValueError("should not be empty")
    return text


Said = Annotated[str, AfterValidator(_is_said)]


class Manifest(Part):
    """The description of one tool, with the keys of `assistant_tool.json` (`displayName` is `display_name` here).

    `load` makes it from a file or parsed JSON. The constructor raises `pydantic.ValidationError` for invalid values.
    """

    display_name: Said
    """The tool's name for users."""
    id: Name
    """The tool's name for models and in code; unique in an agent."""
    description: Said
    """The tool's description for the model."""
    icon: str = ""
    """The name of an SF Symbol. ACP clients do not show it."""
    color: str = ""
    """A colour, by name or as `#rrggbb`. ACP clients do not show it."""
    parameters: list[Parameter] = Field(default_factory=list[Parameter])
    """The tool's parameters; an empty list for none."""
    require_approval: StrictBool
    """Whether a user must approve each run. It has no default: a misspelled key must not make a tool run without
    approval."""
    auto_approve: StrictBool = False
    """Whether the user's setting to approve tools automatically applies to this one."""
    script_editor_only: StrictBool = False
    """Whether the tool runs only with an editor."""

    @field_validator("parameters")
    @classmethod
    def _names_differ(cls, parameters: list[Parameter]) -> list[Parameter]:
        seen: set[str] = set()
        for parameter in parameters:
            if parameter.name in seen:
                raise ValueError(f"should have different names, but {parameter.name!r} occurs twice")
            seen.add(parameter.name)
        return parameters

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Manifest) -> Manifest:
        """Return a manifest, read from a file, from the directory with `assistant_tool.json`, or from parsed JSON.

        Unknown keys are kept and logged as a warning. Raises ManifestError, which lists every problem.
        """
        if isinstance(source, Manifest):
            return source
        if isinstance(source, Mapping):
            return _validated("the given object", dict(source))
        path = Path(source)
        if path.is_dir():
            path /= FILE_NAME
        return _validated(str(path), _read(path))

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments. It is the schema of an object, because models require that."""
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema_of() for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.is_required],
            "additionalProperties": False,
        }

    def check(self, arguments: Any) -> dict[str, Any]:
        """Validate the arguments from a model, a JSON object, and return them with defaults, as the function gets them.

        None counts as no arguments, and null for an optional argument counts as omitting it. Raises InvalidParams. Its
        message lists each problem in words that a model can act on. Its data has the problems as `{"problems":
        [{"path": ..., "message": ...}]}`.
        """
        if arguments is not None and not isinstance(arguments, Mapping):
            raise self._refusal([("", f"should be an object, not {excerpt(arguments)}")])
        given: dict[str, Any] = dict(cast("Mapping[str, Any]", arguments or {}))
        problems: list[tuple[str, str]] = []
        params: dict[str, Any] = {}
        for parameter in self.parameters:
            name = parameter.name
            value = given.pop(name, None)
            if value is None:
                if parameter.is_required:
                    problems.append((name, "is required"))
                elif parameter.has_default:
                    params[name] = parameter.plain(deepcopy(parameter.default))
            elif found := list(parameter.problems(value, name)):
                problems += found
            else:
                params[name] = parameter.plain(value)
        problems += [(name, "is not a parameter of this tool") for name in given]
        if problems:
            raise self._refusal(problems)
        return params

    def _refusal(self, problems: list[tuple[str, str]]) -> InvalidParams:
        text = "; ".join(f"{path} {message}".lstrip() for path, message in problems)
        listed = [{"path": path, "message": message} for path, message in problems]
        return InvalidParams(f"The arguments of {self.id} are invalid: {text}", data={"problems": listed})


def _validated(source: str, data: Any) -> Manifest:
    try:
        # Only the keys of the file: it has no `display_name`.
        manifest = Manifest.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ManifestError(source, list(_explain(error))) from None
    for path, key, known in _unknown(manifest, ""):
        guess = get_close_matches(key, known, 1, 0.8)
        hint = f"; did you mean {guess[0]!r}?" if guess else ""
        logger.warning("%s: %s is an unknown key and has no effect%s", source, path + key, hint)
    return manifest


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"), object_pairs_hook=_once, parse_constant=_no_constant)
    except OSError as error:
        problem = error.strerror or str(error)
    except (ValueError, RecursionError) as error:
        problem = f"not JSON: {error}"
    raise ManifestError(str(path), [{"path": "", "message": problem}])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Otherwise the later one of two `requireApproval` would silently win.
    keys = dict(pairs)
    if len(keys) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return keys


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} cannot be expressed in JSON")


_EXPECTED: Final = {
    "bool_type": "should be true or false",
    "list_type": "should be an array",
    "model_type": "should be an object",
    "string_type": "should be a string",
    "too_short": "should not be empty",
}
"""Messages that use JSON's words for types. pydantic's messages use Python's words."""


def _explain(error: ValidationError) -> Iterator[dict[str, str]]:
    for detail in error.errors(include_url=False):
        given: Any = detail["input"]
        if detail["type"] == "missing":
            # The input is the object without the key.
            near = get_close_matches(str(detail["loc"][-1]), cast("dict[str, Any]", given), 1, 0.8)
            message = "is required" + (f"; is {near[0]!r} misspelled?" if near else "")
        else:
            message = _EXPECTED.get(detail["type"]) or detail["msg"].removeprefix("Input ").removeprefix(
                "Value error, "
            )
            if not isinstance(given, dict | list):
                message += f", not {excerpt(given)}"
        yield {"path": place_of(detail["loc"]), "message": message}


def _unknown(part: Part, path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield `(path, key, known keys)` for each unknown key."""
    known = [field.alias or name for name, field in type(part).model_fields.items()]
    for key in part.model_extra or ():
        yield path, key, known
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        below = f"{path}{field.alias or name}"
        if isinstance(value, Part):
            yield from _unknown(value, f"{below}.")
        elif isinstance(value, list):
            for index, item in enumerate(cast("list[Any]", value)):
                if isinstance(item, Part):
                    yield from _unknown(item, f"{below}[{index}].")
