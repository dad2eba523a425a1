"""The bodies of requests. An explicit null counts as an absent field, because clients send both.

This module checks the limits that have their own error codes. The handler checks whether an object belongs to the
caller.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema

from acp_server.apps.gateway.errors import ApiError, Code
from acp_server.apps.gateway.messages import ANSWER, QUESTION, TEXT, check_content, check_said
from acp_server.apps.gateway.records import is_id
from acp_server.schema import first_problem

META_PAIRS: Final = 16
META_KEY: Final = 64
META_VALUE: Final = 512
MESSAGES: Final = 100
"""The most messages of one request."""
NAME: Final = 100
PAGE: Final = 50
"""The most messages or conversations of one page."""
_LONGEST: Final = 300
"""The most characters of a path in an error. The path may have names that the caller chose."""

_MESSAGES_IN: Final = ("additional_messages", "messages")
_Pairs = dict[str, str]
_Id = Annotated[str, Field(min_length=1)]
_BotId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]


class _Body(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", strict=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return first_problem(handler(source), BaseModel)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in cast("dict[str, Any]", data).items() if value is not None}
        return data


class EnterMessage(_Body):
    """A message from a client."""

    role: Literal["user", "assistant"]
    type: str = Field(default="", max_length=64)
    content: str = ""
    content_type: str = Field(default=TEXT, min_length=1, max_length=64)
    meta_data: _Pairs = Field(default_factory=_Pairs)

    @property
    def kind(self) -> str:
        """`type`, by default the type for the role."""
        return self.type or (QUESTION if self.role == "user" else ANSWER)


class ChatBody(_Body):
    """The body of `POST /v3/chat`."""

    bot_id: _BotId
    user_id: str = Field(min_length=1)
    additional_messages: list[EnterMessage] = Field(default_factory=list[EnterMessage])
    stream: bool = False
    auto_save_history: bool = True
    meta_data: _Pairs = Field(default_factory=_Pairs)
    custom_variables: dict[str, Any] = Field(default_factory=dict[str, Any])
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])


class ToolOutput(_Body):
    """The output for one tool call."""

    tool_call_id: _Id
    output: str


class SubmitBody(_Body):
    """The body of `POST /v3/chat/submit_tool_outputs`."""

    tool_outputs: list[ToolOutput] = Field(min_length=1, max_length=MESSAGES)
    stream: bool = False


class CancelBody(_Body):
    """The body of `POST /v3/chat/cancel`."""

    conversation_id: _Id
    chat_id: _Id


class ConversationBody(_Body):
    """The body of `POST /v1/conversation/create`."""

    bot_id: _BotId | None = None
    name: str = Field(default="", max_length=NAME)
    messages: list[EnterMessage] = Field(default_factory=list[EnterMessage])
    meta_data: _Pairs = Field(default_factory=_Pairs)
    connector_id: str = Field(default="1024", max_length=64)


class RenameBody(_Body):
    """The body of `PUT /v1/conversations/{id}`."""

    name: str | None = Field(default=None, max_length=NAME)


class ListBody(_Body):
    """The body of `POST /v1/conversation/message/list`."""

    order: Literal["asc", "desc"] = "desc"
    chat_id: str = ""
    before_id: str = ""
    after_id: str = ""
    limit: int = Field(default=PAGE, ge=1, le=PAGE)


class ModifyBody(_Body):
    """The body of `POST /v1/conversation/message/modify`."""

    content: str | None = None
    content_type: str | None = Field(default=None, min_length=1, max_length=64)
    meta_data: _Pairs | None = None


_B = TypeVar("_B", bound=_Body)


def read(kind: type[_B], data: Any) -> _B:
    """Read `data`, parsed JSON, as a body of this kind. Raises ApiError with the documented code."""
    for name in _MESSAGES_IN:
        # Before the items are validated, since a body has room for a hundred thousand.
        if isinstance(data, dict) and isinstance(messages := cast("dict[str, Any]", data).get(name), list):
            _check_number(cast("list[Any]", messages))
    try:
        body = kind.model_validate({} if data is None else data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])[:_LONGEST]
        # pydantic's message would have the name of an internal class.
        what = "has to be an object" if first["type"] == "model_type" else first["msg"]
        raise ApiError(Code.BAD_PARAMETER, f"{where or 'body'}: {what}") from None
    meta_data = getattr(body, "meta_data", None)
    if meta_data:
        _check_meta_data(meta_data)
    for name in _MESSAGES_IN:
        _check_messages(getattr(body, name, []))
    if isinstance(body, EnterMessage):
        _check_messages([body])
        if body.kind not in (QUESTION, ANSWER):
            raise ApiError(Code.BAD_MESSAGE, "a message that is inserted is of the type question or answer")
        check_said(body.content)
    if isinstance(body, ChatBody) and body.additional_messages:
        check_said(body.additional_messages[-1].content)
    return body


def _check_number(messages: list[Any]) -> None:
    """Raise ApiError for too many messages."""
    if len(messages) > MESSAGES:
        raise ApiError(Code.TOO_MANY_MESSAGES, f"more than {MESSAGES} messages")


def _check_messages(messages: list[EnterMessage]) -> None:
    """Raise ApiError for an invalid message."""
    for message in messages:
        _check_meta_data(message.meta_data)
        check_content(message.content, message.content_type)


def _check_meta_data(meta_data: dict[str, str]) -> None:
    """Raise ApiError 4003 for more pairs, or longer ones, than the API allows."""
    if len(meta_data) > META_PAIRS:
        raise ApiError(Code.BAD_META_DATA, f"meta_data has more than {META_PAIRS} pairs")
    for key, value in meta_data.items():
        if not 1 <= len(key) <= META_KEY:
            raise ApiError(Code.BAD_META_DATA, f"a key of meta_data has to have 1 to {META_KEY} characters")
        if not 1 <= len(value) <= META_VALUE:
            raise ApiError(Code.BAD_META_DATA, f"a value of meta_data has to have 1 to {META_VALUE} characters")


def known_id(text: str | None, missing: str, code: Code, unknown: str) -> str:
    """Return an id from a request. Raises ApiError 4000 if it is missing, and `code` if it does not have the form of
    an id. The id may be unknown."""
    if not text:
        raise ApiError(Code.BAD_PARAMETER, f"{missing} is missing")
    if not is_id(text):
        raise ApiError(code, unknown)
    return text
