"""Converts an agent's questions to tool calls, and a client's outputs for them to answers.

`acp_server.apps.gateway.live_chat` decides when a question is shown and answered. An answer to a form is validated
against every kind of field in the protocol (ACP, Elicitation, Form mode). Unknown kinds are left to the agent, which
must validate everything again anyway.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final, Literal, cast

import anyio
from pydantic import ValidationError
from pydantic_core import PydanticCustomError, SchemaError, SchemaValidator, core_schema
from pydantic_core.core_schema import CoreSchema

from acp_server.apps.gateway.errors import ApiError, Code
from acp_server.apps.gateway.messages import TooDeep, whole_json
from acp_server.schema import (
    BooleanPropertySchema,
    CreateElicitationResponse,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationDeclineAction,
    ElicitationFormMode,
    ElicitationPropertySchema,
    ElicitationSchema,
    ElicitationUrlMode,
    IntegerPropertySchema,
    MultiSelectItems,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    PermissionOption,
    RequestPermissionRequest,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
)
from acp_server.tools.checks import check_of
from acp_server.wire.codec import DecodeError, decode

_INT64: Final = 2**63
"""Integers in an answer must be smaller than this."""
_LONGEST: Final = 300
"""The most characters of an explanation, because some explanations list all possible choices."""


def misfit(form: ElicitationSchema, content: dict[str, Any]) -> str | None:
    """Return why `content` does not match the form, without quoting its values; None if it matches."""
    required = set(form.required or ())
    fields = {
        name: core_schema.typed_dict_field(_field(field), required=name in required)
        for name, field in form.properties.items()
    }
    # A required field without a description accepts any value.
    fields |= {name: core_schema.typed_dict_field(core_schema.any_schema()) for name in required - fields.keys()}
    if len(content) > len(fields):
        # Each unknown name would be a separate error.
        return f"{next(iter(content.keys() - fields.keys()))[:_LONGEST]}: Extra inputs are not permitted"
    try:
        validator = check_of(core_schema.typed_dict_schema(fields, extra_behavior="forbid"))
    except SchemaError:
        return None  # it has names or choices that cannot be encoded: the agent validates it
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
    """Return the pattern if it can be matched in time linear in the text; None for other patterns, such as patterns
    with back-references."""
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
            pass  # a library refuses it
        raise PydanticCustomError("format", "Input should be of the format {name}", {"name": name})

    return check


_FORMATS: Final = {
    "email": _format("email", _EMAIL.fullmatch),
    "uri": _format("uri", _URI.validate_python),
    "date": _format("date", lambda text: _DATE.fullmatch(text) and date.fromisoformat(text)),
    # It may be a leap second, or have a longer fraction than `datetime` supports.
    "date-time": _format("date-time", lambda text: _DATE_TIME.fullmatch(text) and datetime.fromisoformat(text[:10])),
}


PERMISSION: Final = "request_permission"
FORM: Final = "elicit_form"
URL: Final = "elicit_url"

CallType = Literal["function", "reply_message"]
"""The type of a tool call in the API: a function to execute, or a message with replies for the user to choose from."""

_DISMISSED: Final = ("cancel", "cancelled", "canceled")
_DECLINED: Final = ("decline", "declined")


class Question(ABC):
    """One question. `id` is the id of its tool call. `name` and `arguments` are shown to the client."""

    name: str
    arguments: dict[str, Any]
    elicits = True
    """Whether the question is an elicitation. Otherwise it is a permission request."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.answer: Any = None
        """The answer, once `answered` is set; None if the question was dismissed."""
        self.answered: anyio.Event = anyio.Event()
        self.withdrawn = False
        """Whether the agent has withdrawn the question."""

    @abstractmethod
    def read(self, output: str) -> Any:
        """Return the answer that a tool output contains. Raises ApiError 4000 if the output is not an answer to this
        question."""

    def resolve(self, answer: Any) -> None:
        """Set the answer; None to dismiss the question."""
        self.answer = answer
        self.answered.set()

    def to_wire(self, elicitation: CallType = "function") -> dict[str, Any]:
        """Return the question as a tool call of `required_action`. `elicitation` is the type for an elicitation."""
        function = {"name": self.name, "arguments": json.dumps(self.arguments)}
        return {"id": self.id, "type": elicitation if self.elicits else "function", "function": function}


class PermissionQuestion(Question):
    """The question whether a tool may run. The answer is an option's id, kind or name: as text, as JSON with
    `option_id`, or in the form of the protocol (ACP, Tool Calls, Requesting Permission). `cancel` chooses no option."""

    name = PERMISSION
    elicits = False

    def __init__(self, id: str, request: RequestPermissionRequest) -> None:
        super().__init__(id)
        self._options = request.options
        call = request.tool_call
        self.arguments: dict[str, Any] = {
            "title": call.title or call.tool_call_id,
            "tool_call": call.to_wire(),
            "options": [
                {"option_id": option.option_id, "name": option.name, "kind": option.kind} for option in request.options
            ],
        }

    def read(self, output: str) -> PermissionOption | None:
        """Return the chosen option; None if none was chosen."""
        stripped = output.strip()
        # Unchanged first: an id may have blanks around it, or look like one of the other forms.
        if (option := self._find(output) or self._find(stripped)) is not None:
            return option
        if stripped.lower() in _DISMISSED:
            return None
        match _object(output):
            case {"option_id": str(text)} | {"optionId": str(text)}:
                option = self._find(text)
            case {"outcome": {"outcome": "selected", "optionId": str(text)}}:
                option = self._find(text)
            case {"outcome": {"outcome": "cancelled"}}:
                return None
            case _:
                pass
        if option is not None:
            return option
        choices = ", ".join(option.option_id for option in self._options)
        raise ApiError(Code.BAD_PARAMETER, f"the output for {self.id} must be one of the options ({choices}) or cancel")

    def _find(self, text: str) -> PermissionOption | None:
        for attribute in ("option_id", "kind", "name"):
            for option in self._options:
                if text == getattr(option, attribute):
                    return option
        return None


class FormQuestion(Question):
    """The request to fill in a form. The answer is JSON with the fields, or `decline`, or `cancel`; for a form with one
    text field it may be plain text."""

    name = FORM

    def __init__(self, id: str, request: ElicitationFormMode) -> None:
        super().__init__(id)
        self._form = request.requested_schema
        self.arguments: dict[str, Any] = {"message": request.message, "schema": request.requested_schema.to_wire()}

    def read(self, output: str) -> CreateElicitationResponse:
        """Return the content of the form, or the refusal."""
        if (refusal := _refusal(output)) is not None:
            return refusal
        content = _object(output)
        if content is None:
            content = self._only_field(output)
        why = misfit(self._form, content)
        if why is None:
            try:
                return ElicitationAcceptAction(content=content)
            except ValidationError:
                # Of a field whose kind only the agent knows.
                why = "a field has a value that no form can have"
        raise ApiError(Code.BAD_PARAMETER, f"the output for {self.id} does not fit the form: {why}")

    def _only_field(self, text: str) -> dict[str, Any]:
        fields = self._form.properties
        if len(fields) == 1 and all(isinstance(field, StringPropertySchema) for field in fields.values()):
            return dict.fromkeys(fields, text)
        raise ApiError(Code.BAD_PARAMETER, f"the output for {self.id} has to be a JSON object with the form's fields")


class UrlQuestion(Question):
    """The request to open a URL. The answer is `accept`, `decline` or `cancel`."""

    name = URL

    def __init__(self, id: str, request: ElicitationUrlMode) -> None:
        super().__init__(id)
        self.arguments: dict[str, Any] = {"message": request.message, "url": str(request.url)}

    def read(self, output: str) -> CreateElicitationResponse:
        """Return whether the user opened the URL."""
        if (refusal := _refusal(output)) is not None:
            return refusal
        if output.strip().lower() in ("accept", "accepted"):
            return ElicitationAcceptAction()
        raise ApiError(Code.BAD_PARAMETER, f"the output for {self.id} must be accept, decline or cancel")


def _refusal(output: str) -> ElicitationDeclineAction | ElicitationCancelAction | None:
    text = output.strip().lower()
    if text in _DECLINED:
        return ElicitationDeclineAction()
    return ElicitationCancelAction() if text in _DISMISSED else None


def _object(output: str) -> dict[str, Any] | None:
    """Return `output` as a JSON object; None if it is not one."""
    try:
        value = whole_json(decode(output.encode()))
    except (DecodeError, TooDeep):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
