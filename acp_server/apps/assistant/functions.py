"""Calls the functions of an `AssistantTool`. `Registered` calls a function with its arguments, `Invocation` is one
execution, and `ApprovalRequest` is the result of an approval request function."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import cached_property
from threading import get_ident
from types import TracebackType
from typing import Any, Final

from pydantic import BaseModel, StrictBool, TypeAdapter, ValidationError

from acp_server import Approval, InvalidParams, OnCancel, ToolContext, UsageError
from acp_server.apps.assistant.manifest import Said
from acp_server.apps.assistant.manifest_parameter import Part
from acp_server.signatures import signature_of
from acp_server.tasks.threads import Threads
from acp_server.tools.checks import check_of
from acp_server.tools.editor import BlockingEditor, Editor
from acp_server.tools.parameters import annotation_of, name_of
from acp_server.tools.tool import context_parameter

logger: logging.Logger = logging.getLogger("acp_server.tools")

Function = Callable[..., Any]

CALL: Final = "call"
"""The key of the running call among the arguments. A parameter gets the call where `@agent.tool` would pass it."""

_NOTHING: Final = nullcontext()
_PARAMS: Final = "params"
_BY_TYPE: Final = {"editor": r"\b(Blocking)?Editor\b", "user_action": r"\bUserAction\b"}
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Registered:
    """A registered function. `takes`: the names of its arguments. A parameter gets the argument with its name or type.
    Remaining parameters without a default get the remaining arguments, in order, and `*arguments` gets all.

    Raises UsageError for a function that cannot be called like that.
    """

    def __init__(self, function: Function, takes: Sequence[str]) -> None:
        self._function = function
        self._takes = takes
        if not callable(function):
            raise UsageError(f"expected a function, not {type(function).__name__}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(f"{name_of(function)} must return its result, not yield it")
        self._parameters = list(signature_of(function).parameters.values())
        self._gets = _matched(function, self._parameters, takes)
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - not a check whether it is callable
        )

    async def call(self, *arguments: Any, call: Any = None, inside: AbstractContextManager[Any] = _NOTHING) -> Any:
        """Call the function and return its result. Raises its exceptions, and InvalidParams if `params` is invalid for
        the parameter's type. A plain function gets a `BlockingEditor` for an `Editor`. The function runs within the
        context manager `inside`, also in its thread, which a cancel does not end."""
        given = dict(zip(self._takes, arguments, strict=True))
        if self._shape is not None:
            given[_PARAMS] = _fitted(self._shape, given[_PARAMS])
        if not self._is_async:
            given = {name: BlockingEditor(it) if isinstance(it, Editor) else it for name, it in given.items()}
        positional, by_name = self._bind(given | {CALL: call})
        if self._is_async:
            with inside:
                return await self._function(*positional, **by_name)

        def run() -> Any:
            with inside:
                return self._function(*positional, **by_name)

        value = await Threads.current().run(name_of(self._function), run)
        if inspect.isawaitable(value):
            with inside:
                return await value
        return value

    def _bind(self, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        by_name: dict[str, Any] = {}
        for parameter in self._parameters:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional += [given[name] for name in self._takes if name not in self._gets.values()]
            elif parameter.kind in _POSITIONAL:
                name = self._gets.get(parameter.name)
                positional.append(parameter.default if name is None else given[name])
            elif parameter.name in self._gets:
                by_name[parameter.name] = given[self._gets[parameter.name]]
        return positional, by_name

    @cached_property
    def _shape(self) -> Any:
        """The validator that converts the params to the annotated type; None if that is a dict."""
        for parameter in self._parameters:
            if self._gets.get(parameter.name) == _PARAMS:
                try:
                    kind = annotation_of(self._function, parameter)
                except Exception:
                    return None  # it exists only for type checkers
                if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel)):
                    adapter = TypeAdapter[Any](kind)
                    adapter.rebuild()  # a model may build its schema at its first use
                    return check_of(adapter.core_schema)
        return None


def _matched(function: Function, parameters: Sequence[inspect.Parameter], takes: Sequence[str]) -> dict[str, str]:
    """Return the key of each parameter's argument, by the parameter's name."""
    gets: dict[str, str] = {}
    if (context := context_parameter(function)) is not None:
        gets[context] = CALL
    for parameter in parameters:
        name = _meant(parameter, takes)
        if name is not None and name not in gets.values() and parameter.name not in gets:
            gets[parameter.name] = name
    rest: Iterator[str] = iter([name for name in takes if name not in gets.values()])
    for parameter in parameters:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        if parameter.name in gets or parameter.default is not inspect.Parameter.empty:
            continue
        name = next(rest, None) if parameter.kind in _POSITIONAL else None
        if name is None:
            raise UsageError(
                f"{name_of(function)} gets the arguments ({', '.join(takes)}), so its parameter {parameter.name} has "
                "no value"
            )
        gets[parameter.name] = name
    return gets


def _meant(parameter: inspect.Parameter, takes: Sequence[str]) -> str | None:
    """Return the key of the argument with the parameter's name or type; None if no argument fits."""
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        return None
    name = "user_action" if parameter.name == "userAction" else parameter.name
    if name in takes:
        return name
    annotation = parameter.annotation
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return next((name for name in takes if name in _BY_TYPE and re.search(_BY_TYPE[name], text)), None)


def _fitted(shape: Any, params: Any) -> Any:
    try:
        return shape.validate_python(params)
    except ValidationError as error:
        from acp_server.schema import explain

        problems = explain(error)
        text = "; ".join(f"{problem['path']} {problem['message']}".strip() for problem in problems)
        raise InvalidParams(f"The arguments are invalid: {text}", data={"problems": problems}) from None


class Trial:
    """Replaces the call (`ToolContext`) in a test call: it is never cancelled and does nothing."""

    is_cancelled = False
    on_cancel: OnCancel | None = None


class Invocation:
    """One execution, from the call of the function to its return. Code that the function has left running may still
    refer to it.

    As a context manager, it adds itself to `running` while the function itself runs. A function in a thread may run
    longer than the execution.
    """

    def __init__(self, context: ToolContext | Trial, running: set[Invocation]) -> None:
        self.context = context
        self._running = running
        self.ended = False
        self.loop_thread: int = get_ident()
        """The thread of its event loop."""
        self._on_cancel: OnCancel | None = None

    def __enter__(self) -> None:
        self._running.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.discard(self)

    @property
    def on_cancel(self) -> OnCancel | None:
        """The author's function, until the execution has ended."""
        return None if self.ended else self._on_cancel

    def set_on_cancel(self, function: OnCancel | None, running: ContextVar[Invocation | None]) -> None:
        """Have `function` called when the execution is cancelled. During that call `running` refers to this execution,
        too."""
        self._on_cancel = function

        def ask() -> str | None:
            assert function is not None
            token = running.set(self)
            try:
                return function()
            finally:
                running.reset(token)

        self.context.on_cancel = None if function is None else ask


class PreviewButton(Part):
    """A preview for the user's decision. Clients have no button for a preview, so it is shown with the request."""

    label: Said
    """The name of the button, and the heading of the preview."""
    action: Callable[[], Any]
    """Opens a diff with the editor, or returns text or content to show. It must not change anything."""


class ApprovalRequest(Part):
    """The approval request. As a dict, its keys may be written in either case: `previewButton` or `preview_button`."""

    message: Said
    """The pending action, and why it needs approval."""
    title: str | None = None
    """The title of the call, if it differs from the tool's."""
    preview_button: PreviewButton | None = None
    """A preview for the decision."""
    primary_button_label: str | None = None
    """The label of the approving button."""
    secondary_button_label: str | None = None
    """The label of the rejecting button."""
    remember: StrictBool = True
    """Whether the user may also decide for all later calls, as in `Approval`."""

    @classmethod
    def read(cls, value: Any) -> ApprovalRequest:
        """Return the approval request that a function returned as an object or a dict. Raises UsageError, which lists
        the invalid fields."""
        if isinstance(value, ApprovalRequest):
            return value
        if not isinstance(value, Mapping):
            raise UsageError(f"an approval request must be an ApprovalRequest or a dict, not {type(value).__name__}")
        try:
            request = cls.model_validate(value)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, detail['loc']))}: {detail['msg'].removeprefix('Value error, ')}"
                for detail in error.errors(include_url=False, include_input=False, include_context=False)
            )
            raise UsageError(f"the approval request is invalid: {problems}") from None
        if request.model_extra:
            logger.warning("unknown keys in the approval request were ignored: %s", ", ".join(request.model_extra))
        return request

    def approval(self, preview: list[Any]) -> Approval:
        """Return the request in the form that every tool uses. `preview`: the content to show."""
        return Approval(
            self.message,
            title=self.title or None,
            preview=preview or None,
            primary=self.primary_button_label or "Allow",
            secondary=self.secondary_button_label or "Cancel",
            remember=self.remember,
        )
