"""A tool call while it runs. `CallState` is the state that the call's runner and its permission share. `ToolContext` is
the call as its function sees it.

`acp_server.tools.runner` starts and ends the call. Every member of `ToolContext` may be used from the worker thread of
a plain function.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from acp_server.errors import CapabilityMissing
from acp_server.tasks.cause import Cause
from acp_server.tasks.threads import Threads, in_loop
from acp_server.tools.approval import NOT_ASKED, UserAction

if TYPE_CHECKING:
    from acp_server.schema.tool_call import ToolCallContent, ToolCallLocation
    from acp_server.session.client import Client
    from acp_server.session.session import Session
    from acp_server.session.subagents import Subagent
    from acp_server.session.turn import Turn
    from acp_server.session.updates import LiveTurn
    from acp_server.tasks.tree import Node
    from acp_server.tools.editor import Editor
    from acp_server.tools.tool import Tool
    from acp_server.tools.view import UnshownPieces, View

logger: logging.Logger = logging.getLogger("acp_server.tools")

OnCancel = Callable[[], "str | None"]

_AT_ONCE: Final = 256 * 1024
"""Characters of output that the event loop handles in one slice. A thread can write much more than this between two
slices."""

LEFT_OUT: Final = "\n[some output is left out]\n"


@dataclass(slots=True, eq=False)
class CallState:
    """The state of one tool call."""

    turn: LiveTurn
    tool: Tool[Any]
    id: str
    """The `toolCallId`."""
    given: str
    """The id that the caller gave."""
    node: Node
    view: View
    threads: Threads
    backlog: UnshownPieces
    """Output that the view does not have yet."""
    action: UserAction = NOT_ASKED
    """The user's decision about the call."""
    executing: bool = False
    """Whether the function is running."""
    on_cancel: OnCancel | None = None
    """The function to call if the call is cancelled; see `ToolContext.on_cancel`. It is only called while
    `executing`."""

    def take(self, most: float = math.inf) -> bool:
        """Move about `most` characters of the buffered output to the view. Returns whether more output is left."""
        pieces, lost, more = self.backlog.take(most)
        if lost:
            self.view.say(LEFT_OUT)
        for is_text, some in groupby(pieces, lambda piece: isinstance(piece, str)):
            if is_text:
                self.view.say("".join(cast("Iterable[str]", some)))
            else:
                self.view.attach(*cast("Iterable[ToolCallContent]", some))
        return more


class ToolContext:
    """One tool call. If a parameter of a tool's function is annotated with this class, it gets the running call."""

    # Without a `__dict__`, setting a misspelled attribute raises instead of having no effect.
    __slots__ = ("__weakref__", "_call", "_editor", "data", "id", "name", "partial", "raw_output", "turn")

    def __init__(self, call: CallState) -> None:
        self._call = call
        self.turn: Turn = call.turn.face
        """The turn of the call."""
        self.id: str = call.id
        """The `toolCallId`, as the client knows the call."""
        self.name: str = call.tool.name
        """The tool's name."""
        self.data: Any = None
        """A value that the tool may set, for example to pass data from its approval request to its function."""
        self.raw_output: Any = None
        """The `rawOutput` so far: any value that JSON can express. The client gets it with the final status, however
        the call ends, unless the call's result is itself a JSON value. `on_cancel` may set it."""
        self.partial: str = ""
        """The partial result that the model gets if the call is cancelled. The text of `on_cancel` is appended in
        brackets. The partial result is not sent to the client, which may already have it through `progress`.
        `on_cancel` may set it."""
        self._editor: Editor | None = None

    @property
    def action(self) -> UserAction:
        """The user's decision about the call."""
        return self._call.action

    @property
    def executing(self) -> bool:
        """Whether the function is running. It is False while the user is asked, and after the function ended."""
        return self._call.executing

    @property
    def session(self) -> Session:
        """The session of the call."""
        return self.turn.session

    @property
    def client(self) -> Client:
        """The client: its files, its terminals, and questions to the user. If the call is cancelled, its in-flight
        requests are cancelled too. In a thread, use `call.run(call.client.read_text_file, path)`."""
        return self.turn.session.client

    @property
    def editor(self) -> Editor:
        """The project's files as the client's editor has them. Raises CapabilityMissing if the client does not let
        agents read and write files; the model gets that message. With `needs_editor`, the tool does not run with such a
        client. `Editor.of(call.session)` returns None for such a client instead of raising."""
        if self._editor is None:
            from acp_server.tools.editor import Editor

            self._editor = Editor.of(self.turn.session)
        if self._editor is None:
            raise CapabilityMissing("call.editor", "clientCapabilities.fs.readTextFile and writeTextFile")
        return self._editor

    @property
    def primary_confirmed(self) -> bool:
        """Whether the call was approved, by the user or without a question."""
        return self._call.action.primary_confirmed

    @property
    def secondary_confirmed(self) -> bool:
        """Whether the user declined the call. It is False if the question was only dismissed."""
        return self._call.action.secondary_confirmed

    def subagent(
        self, title: str, *, task: str | None = None, description: str | None = None, cwd: str | None = None
    ) -> Subagent:
        """Do the same as `Turn.subagent`. The child's work is part of this call and is cancelled with it. Only for
        async tools."""
        from acp_server.session.subagents import Subagent

        return Subagent(self._call.turn, self._call.node, title, task, description, cwd)

    # -- being cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled, either alone or with its turn."""
        return self._call.node.cause is not None

    @property
    def cause(self) -> Cause | None:
        """The cause of the cancel; None without a cancel."""
        return self._call.node.cause

    def cancel(self, cause: Cause = Cause.TIMEOUT) -> bool:
        """Cancel only this call, for example after a time-out. It may be called from any thread and from outside the
        call's function. Returns False if the call has ended or was cancelled already. The call's result is `cancelled`,
        with the text of `on_cancel`."""
        return self.turn.client.connection.cancel(self._call.node, cause)

    @property
    def on_cancel(self) -> OnCancel | None:
        """A function that is called when the call is cancelled while its function runs. It returns text for the model
        and the user, for example partial results, or None.

        It is optional. It must be quick and change nothing. It is called in a separate thread, in which `run` raises.
        Its exceptions are logged. After a cancel, the result of the tool's function is ignored. Set `on_cancel` inside
        the tool's function. Before and after that function runs, `on_cancel` is None and setting it has no effect.
        """
        return self._call.on_cancel if self._call.executing else None

    @on_cancel.setter
    def on_cancel(self, function: OnCancel | None) -> None:
        if function is not None and not callable(function):
            raise TypeError(f"on_cancel must be a function or None, not {type(function).__name__}")
        if function is not None:
            _check_last_words(function)
        if self._call.executing or function is None:
            self._call.on_cancel = function
        else:
            logger.warning(
                "on_cancel of %s was set while the tool was not running, so the function is not called", self.name
            )

    # -- what it says

    def progress(self, piece: Any) -> None:
        """Show more output: text, which is appended, or a content block, a `schema.Diff` or a `schema.Terminal`. Never
        waits: if the output exceeds `Limits.output` or `Limits.content`, the earliest output is dropped. Has no effect
        once the call is cancelled or has ended."""
        if not isinstance(piece, str):
            from acp_server.tools.view import as_content

            piece = as_content(piece)
        if self._call.backlog.add(piece):
            # One call of the loop handles all pieces that a thread adds meanwhile.
            self._call.threads.soon(self._show)

    @property
    def locations(self) -> Sequence[ToolCallLocation]:
        """The locations in files that the call works at (`schema.ToolCallLocation`). Editors can follow them. Setting
        replaces all of them. If a value is invalid, setting raises ValueError and changes nothing."""
        return self._call.view.locations

    @locations.setter
    def locations(self, places: Sequence[ToolCallLocation]) -> None:
        from acp_server.schema.tool_call import ToolCallLocation
        from acp_server.schema.words import BUILT

        # Validated here, where the caller gets the exception, and before a change.
        places = [ToolCallLocation.model_validate(place, context=BUILT) for place in places]
        self._tell(lambda: self._call.view.locate(places))

    def locate(self, path: str, line: int | None = None) -> None:
        """Add a location: an absolute path, and a line counted from 1. Raises ValueError for any other value."""
        from acp_server.schema.tool_call import ToolCallLocation

        place = ToolCallLocation(path=path, line=line)
        self._tell(lambda: self._call.view.add_place(place))

    def set_title(self, title: str) -> None:
        """Change the title of the call, for the user. Raises TypeError for a title that is not text."""
        if not isinstance(title, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a title must be a string, not {type(title).__name__}")
        self._tell(lambda: self._call.view.entitle(title))

    def verbatim(self) -> None:
        """Show the text output as a code block. Use it, for example, for the output of a program, which is not
        Markdown."""
        self._call.view.verbatim = True

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function(*args)` in the event loop, from the thread of a plain function, and return its result. An
        async function is awaited in the loop.

        Raises the exceptions of `function`. Once the call is cancelled, raises RequestCancelled, also in
        `on_cancel`.
        """
        return in_loop(function, *args)

    def _tell(self, change: Callable[[], None]) -> None:
        self._call.threads.soon(lambda: None if self.is_cancelled else change())

    def _show(self) -> None:
        if self.is_cancelled:
            self._call.backlog.take()
        elif self._call.take(_AT_ONCE):
            # The rest follows after the other tasks have run.
            self._call.threads.later(self._show)


def _check_last_words(function: Callable[..., Any]) -> None:
    """Raise TypeError for an `on_cancel` that needs arguments or is async. Otherwise the mistake would only show when a
    user cancels."""
    code = getattr(function, "__code__", None)
    if code is None:
        return  # the signature of some functions in C is not known
    needs = code.co_argcount - len(getattr(function, "__defaults__", None) or ()) - inspect.ismethod(function)
    if needs > 0 or inspect.iscoroutinefunction(function):
        what = "not be async" if needs <= 0 else "take no arguments"
        raise TypeError(f"on_cancel must {what}, because it is called at the moment of the cancel")
