"""`Tool`: a function with its name, its parameters and its options. `Toolbox`: the tools of one agent by name."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, cast, get_args

from acp_server.errors import UsageError
from acp_server.safe_text import meant
from acp_server.signatures import signature_of
from acp_server.tools.parameters import RULE, StrictParameters, annotation_of, is_name, name_of

if TYPE_CHECKING:
    from acp_server.session.definition import ToolHost
    from acp_server.session.session import Session
    from acp_server.tools.approval import Always, Approvals
    from acp_server.tools.context import ToolContext

logger: logging.Logger = logging.getLogger("acp_server.tools")

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
Q = ParamSpec("Q")
K = ParamSpec("K")
R = TypeVar("R")

OfArguments: TypeAlias = (
    Callable[[Any], R]
    | Callable[[Any, Any], R]
    | Callable[[Any, Any, Any], R]
    | Callable[[Any, Any, Any, Any], R]
    | Callable[[Any, Any, Any, Any, Any], R]
    | Callable[P, R]
)
"""A function that gets a tool's arguments. The arities are listed because a strict type checker infers the parameters
of a lambda only from a type with equally many parameters."""

_CALL: Final = "call"
"""A parameter with this name and no annotation gets the running call."""

_CONTEXT: Final = "ToolContext"
"""The name of the type of the running call."""


class Arguments(Protocol):
    """The arguments of a tool whose function has a signature that does not describe them."""

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, as one object."""
        ...

    def read(self, params: Any) -> dict[str, Any]:
        """Return the checked arguments of the function, by name. Raises InvalidParams, whose data lists each
        problem."""
        ...


ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
_KINDS: Final = get_args(ToolKind)


def _known(kind: Any) -> str:
    if not isinstance(kind, str):
        raise UsageError(f"the kind of a tool must be a string, not {kind!r}")
    # Editors may show nothing for an unknown kind.
    if kind in _KINDS or kind.startswith("_"):
        return kind
    raise UsageError(f"a tool cannot have the kind {kind!r}; {meant(kind, _KINDS)}")


def _check_is_no_template(option: str, text: Any, function: Callable[..., Any]) -> None:
    """Raise UsageError for a text that contains a parameter of the tool in braces, because it would not be replaced."""
    for name in re.findall(r"\{(\w+)", text) if isinstance(text, str) else ():
        if name in signature_of(function).parameters:
            raise UsageError(
                f"braces in {option} are not replaced; pass a function that returns the text, as in lambda {name}: "
                f"f{text!r}"
            )


def _check_takes_the_same(option: str, function: Callable[..., Any], names: list[str]) -> None:
    """Raise UsageError if `function` cannot be called with its tool's arguments, `names`."""
    if (context := context_parameter(function)) is not None:
        names = [*names, context]
    try:
        signature_of(function).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise UsageError(f"{option} must accept the arguments of the tool, {', '.join(names)}: {error}") from None
    except ValueError:
        pass  # the signature of some functions in C is not known


def _is_time(seconds: Any) -> bool:
    return isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0


class Tool(Generic[F]):
    """One tool. Calling the object calls the function directly.

    `function`: an async function or generator, or a plain one, which runs in a thread. Its parameters are the arguments
    from the model, checked against their annotations. A parameter that is annotated `ToolContext` gets the running
    call, and so does a parameter named `call` without an annotation. `name`: the name for the model, by default the
    function's name; models accept up to 64 letters, digits, `_` and `-`. `title`: the title for the user, by default
    the first line of the docstring; or a function that takes the same arguments and returns the title. `description`:
    the description for the model, by default the docstring. `kind`: the kind of tool (ACP, Tool Calls: `read`, `edit`,
    `delete`, `move`, `search`, `execute`, `think`, `fetch`, `other`).

    `approval`: whether each call needs the user's approval; or a function that takes the same arguments and makes the
    question. That function changes nothing, and returns an `Approval` or the question as text. `auto_approve`: whether
    calls need no question while the user's option `auto_approve` is on. `asks_each_time`: whether the user must not be
    able to allow all further calls at once. `approval_key`: the key under which a decision for all further calls is
    stored, by default the name; tools with the same key share the decision. It is text, an `Always`, which also
    describes the calls that the decision covers, or a function that takes the same arguments and returns one of these.
    The function is called right before the question. If it returns None, the user cannot decide for all further calls.
    `approval_timeout`: seconds after which a missing answer counts as a no. `answers_refusal`: whether the function is
    also called without approval, which `ToolContext.primary_confirmed` shows. `needs_editor`: whether the tool runs
    only if the client reads and writes files.

    `grace`: seconds that a cancelled call has for its cleanup before its turn continues without it, by default
    `Limits.grace`. A cancel of the whole turn is answered within `Limits.grace` in any case. `parameters`: the
    arguments, if the function's parameters do not describe them.

    Raises UsageError if the function cannot be a tool.
    """

    def __init__(
        self,
        function: F,
        *,
        name: str | None = None,
        title: str | OfArguments[str, P] | None = None,
        description: str | None = None,
        kind: str = "other",
        approval: bool | OfArguments[Any, Q] = False,
        auto_approve: bool = False,
        asks_each_time: bool = False,
        approval_key: str | Always | OfArguments[str | Always | None, K] | None = None,
        approval_timeout: float | None = None,
        answers_refusal: bool = False,
        needs_editor: bool = False,
        grace: float | None = None,
        parameters: Arguments | None = None,
    ) -> None:
        if not callable(function):
            raise UsageError(f"a tool must be a function, not {type(function).__name__}")
        if not (isinstance(approval, bool) or callable(approval)):
            raise UsageError(f"approval must be True, False or a function that returns the question, not {approval!r}")
        switches = {"auto_approve": auto_approve, "asks_each_time": asks_each_time, "needs_editor": needs_editor}
        for option, on in switches.items():
            if not isinstance(on, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(f"{option} must be True or False, not {on!r}")
        for option, seconds in {"approval_timeout": approval_timeout, "grace": grace}.items():
            if seconds is not None and not _is_time(seconds):
                raise UsageError(f"{option} must be more than 0 seconds, not {seconds!r}")
        if auto_approve and asks_each_time:
            raise UsageError("asks_each_time and auto_approve exclude each other")
        self.is_served: Callable[[], bool] = lambda: False
        """Whether the agent of the tool serves clients."""
        self.function: Final = function
        self.name: Final = name or getattr(function, "__name__", "")
        if not isinstance(self.name, str) or not is_name(self.name):
            # A model's API would refuse the whole request with such a tool.
            raise UsageError(f"{name_of(function)} has no valid name for models ({RULE}); pass name=...")
        doc = inspect.getdoc(function) or ""
        first = doc.split("\n", 1)[0].strip().removesuffix(".")
        for option, text in {"title": title, "approval_key": approval_key}.items():
            _check_is_no_template(option, text, function)
        self.title: Final[str | Callable[..., str]] = title or first or self.name
        self.description: Final = doc if description is None else description
        self.kind: Final = _known(kind)
        self.approval: Final[bool | Callable[..., Any]] = approval
        self.auto_approve: Final = auto_approve
        self.asks_each_time: Final = asks_each_time
        self.approval_key: Final[str | Always | Callable[..., Any]] = approval_key or self.name
        self.approval_timeout: Final = approval_timeout
        self.answers_refusal: Final = answers_refusal
        self.needs_editor: Final = needs_editor
        self.grace: Final = grace
        self.is_async: Final = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        self.takes_context: Final = context_parameter(function)
        self._parameters: Final[Arguments] = parameters or StrictParameters(function, _is_context(function))
        self.read: Final[Callable[[Any], dict[str, Any]]] = self._parameters.read
        """Checks arguments from a model. Raises InvalidParams, whose data lists each problem."""
        self.reads_slowly: Final[bool] = bool(getattr(self._parameters, "is_slow", False))
        """Whether `read` may take so long that it runs in a thread."""
        self.asks_with_context: Final = context_parameter(approval) if callable(approval) else None
        self.keyed_with_context: Final = context_parameter(approval_key) if callable(approval_key) else None
        if parameters is None:
            taken = [name for name in signature_of(function).parameters if name != self.takes_context]
            for option, made in {"title": title, "approval": approval, "approval_key": approval_key}.items():
                if callable(made):
                    _check_takes_the_same(option, made, taken)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, without approval and without updates. While the agent serves clients, a warning
        is logged if the tool needs approval."""
        if self.approval and self.is_served():
            instead = f"await turn.call({self.name}, ...)"
            logger.warning(
                "%s was called as a function, so the user was not asked for approval; %s asks the user",
                self.name,
                instead,
            )
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, as one object, for models. Raises UsageError for types without a schema."""
        return self._parameters.json_schema

    def describe(self) -> dict[str, Any]:
        """Describe the tool for a model: return its `name`, `description` and `input_schema`."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    def runs_in(self, session: Session) -> bool:
        """Whether the tool can run in this session. If not, its calls fail."""
        if not self.needs_editor:
            return True
        from acp_server.tools.editor import Editor

        return Editor.of(session) is not None

    def check_types(self) -> None:
        """Raise UsageError if the type of a parameter is unknown. Called when forward references should be defined."""
        if isinstance(self._parameters, StrictParameters):
            self._parameters.check_types()

    def always(self, arguments: Mapping[str, Any], call: ToolContext) -> Always | None:
        """Return the calls that a decision for all further calls covers; None if the user cannot decide for all further
        calls."""
        from acp_server.tools.approval import Always

        key: Any = self.approval_key
        if callable(key):
            passed = dict(arguments)
            if self.keyed_with_context is not None:
                passed[self.keyed_with_context] = call
            key = key(**passed)
        if key is None or isinstance(key, Always):
            return key
        if not isinstance(key, str):
            raise TypeError(f"an approval key must be a string, an Always or None, not {type(key).__name__}")
        return Always(key, f"all calls of {self.name}" if key == self.name else f"all calls of {self.name} for {key}")


_OF_QUESTIONS: Final = ("auto_approve", "asks_each_time", "approval_key", "approval_timeout", "answers_refusal")


def made_tool(function: F, options: dict[str, Any]) -> Tool[F]:
    """Make a tool with these options. Raises UsageError for an unknown option, for an option about the question without
    `approval`, and for the same reasons as `Tool`."""
    known = list(cast("Any", Tool).__init__.__kwdefaults__)
    unknown = next((option for option in options if option not in known), None)
    if unknown is not None:
        raise UsageError(f"a tool has no option {unknown!r}; {meant(unknown, known)}")
    tool = Tool(function, **options)
    # A program that decides by a condition passes approval=False.
    of_questions = None if "approval" in options else next((each for each in _OF_QUESTIONS if options.get(each)), None)
    if of_questions is not None:
        raise UsageError(f"{of_questions} needs approval=True, because without approval the user is never asked")
    return tool


def context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes the running call, or None."""
    is_context = _is_context(function)
    return next((p.name for p in signature_of(function).parameters.values() if is_context(p)), None)


def _is_context(function: Callable[..., Any]) -> Callable[[inspect.Parameter], bool]:
    def is_context(parameter: inspect.Parameter) -> bool:
        annotation = parameter.annotation
        if annotation is inspect.Parameter.empty:
            return parameter.name == _CALL
        if isinstance(annotation, str):
            # The name often exists for type checkers only.
            if annotation.rpartition(".")[2] == _CONTEXT:
                return True
            try:
                annotation = annotation_of(function, parameter)
            except Exception:
                return False  # it may still be defined, below the function
        if getattr(annotation, "__name__", "") != _CONTEXT:
            return False
        from acp_server.tools.context import ToolContext

        return annotation is ToolContext

    return is_context


class Toolbox:
    """The tools of one agent. Iterating yields them in the order in which they were added."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        self.get: Final[Callable[[str], Tool[Any] | None]] = self._tools.get
        """Returns the tool with that name, or None."""
        self.approvals: Approvals | None = None
        """The store of decisions for all further calls. If it is None, they are stored in the session."""

    def add(self, tool: Tool[Any]) -> None:
        """Add a tool. Raises UsageError if there is a tool with that name."""
        if tool.name in self._tools:
            raise UsageError(f"there are two tools named {tool.name}")
        self._tools[tool.name] = tool

    def check_types(self) -> None:
        """See `Tool.check_types`."""
        for tool in self._tools.values():
            tool.check_types()

    def __iter__(self) -> Iterator[Tool[Any]]:
        """Yield the tools in the order in which they were added."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """The number of tools."""
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        """Whether there is a tool with that name."""
        return name in self._tools

    def __getitem__(self, name: str) -> Tool[Any]:
        """Return the tool with that name. Raises KeyError."""
        return self._tools[name]

    def describe(self, session: Session | None = None) -> list[dict[str, Any]]:
        """Describe the tools for a model; see `Tool.describe`. With a `session`, describe the tools that can run in it,
        including the tools that were added to it."""
        return [tool.describe() for tool in self] if session is None else session.tools.describe()

    def of(self, session: Session) -> ToolHost:
        """Return the tools of one session of the agent."""
        # Not at the top: its import would delay the start of an agent.
        from acp_server.tools.session_tools import SessionTools

        return SessionTools(self, session)


__all__ = ["Arguments", "context_parameter"]
