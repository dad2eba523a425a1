"""Whether what was filled in fits the form of an elicitation (ACP, Elicitation, Form mode).

Every kind of field that the protocol has is checked. What this version does not know is left to the agent, which is to
check all of it again anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import PydanticCustomError, SchemaError, SchemaValidator, core_schema
from pydantic_core.core_schema import CoreSchema

from acp_server.schema import (
    BooleanPropertySchema,
    ElicitationPropertySchema,
    ElicitationSchema,
    IntegerPropertySchema,
    MultiSelectItems,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
)

_INT64: Final = 2**63
"""What an answer can carry is smaller."""
_LONGEST: Final = 300
"""Characters of an explanation: some list all the choices that there are."""


def misfit(form: ElicitationSchema, content: dict[str, Any]) -> str | None:
    """Why `content` does not fit, in words that repeat no value of it; None if it fits."""
    required = set(form.required or ())
    fields = {
        name: core_schema.typed_dict_field(_field(field), required=name in required)
        for name, field in form.properties.items()
    }
    # A field that is wanted and not described can be anything.
    fields |= {name: core_schema.typed_dict_field(core_schema.any_schema()) for name in required - fields.keys()}
    try:
        validator = SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior="forbid"))
    except SchemaError:
        return None  # There are names or choices in it that cannot be written: let the agent see to it.
    try:
        validator.validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        return f"{where[:_LONGEST]}: {first['msg'][:_LONGEST]}"
    return None


def _field(field: ElicitationPropertySchema) -> CoreSchema:
    match field:
        case StringPropertySchema():
            return _text(field)
        case BooleanPropertySchema():
            return core_schema.bool_schema(strict=True)
        case IntegerPropertySchema(minimum=least, maximum=most):
            least, most = -_INT64 if least is None else least, _INT64 - 1 if most is None else most
            return core_schema.int_schema(strict=True, ge=least, le=most)
        case NumberPropertySchema(minimum=least, maximum=most):
            return core_schema.float_schema(strict=True, ge=least, le=most, allow_inf_nan=False)
        case MultiSelectPropertySchema(items=items, min_items=fewest, max_items=most):
            return core_schema.list_schema(_choice(items), strict=True, min_length=fewest, max_length=most)
        case _:
            return core_schema.any_schema()


def _text(field: StringPropertySchema) -> CoreSchema:
    if choices := field.enum or [option.const for option in field.one_of or ()]:
        return core_schema.literal_schema(choices)
    text = core_schema.str_schema(
        strict=True, min_length=field.min_length, max_length=field.max_length, pattern=_readable(field.pattern)
    )
    check = _FORMATS.get(field.format or "")
    return text if check is None else core_schema.no_info_after_validator_function(check, text)


def _choice(items: MultiSelectItems) -> CoreSchema:
    match items:
        case StringMultiSelectItems(enum=[_, *_] as choices):
            return core_schema.literal_schema(choices)
        case TitledMultiSelectItems(any_of=[_, *_] as options):
            return core_schema.literal_schema([option.const for option in options])
        case _:
            return core_schema.str_schema(strict=True)


def _readable(pattern: str | None) -> str | None:
    """A pattern that can be checked in a time that grows with the text alone; None for others, such as those with
    references to what was matched."""
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return None
    return pattern


# -- formats

_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_URI: Final = SchemaValidator(core_schema.url_schema())


def _format(name: str, fits: Callable[[str], Any]) -> Callable[[str], str]:
    def check(text: str) -> str:
        try:
            if fits(text):
                return text
        except ValueError:
            pass  # The same, from a library.
        raise PydanticCustomError("format", "Input should be of the format {name}", {"name": name})

    return check


_FORMATS: Final = {
    "email": _format("email", _EMAIL.fullmatch),
    "uri": _format("uri", _URI.validate_python),
    "date": _format("date", lambda text: _DATE.fullmatch(text) and date.fromisoformat(text)),
    # A second may be a leap second, and a fraction longer than a clock of ours knows.
    "date-time": _format("date-time", lambda text: _DATE_TIME.fullmatch(text) and datetime.fromisoformat(text[:10])),
}
