"""`ToolContext`: what a tool's function gets to know of the call that it carries out, and may say meanwhile.

It decides nothing about the call's life: `acp_server.tools.runner` does. All of it may be used from the thread that a
plain function runs in.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from acp_server.errors import CapabilityMissing
from acp_server.tasks.cause import Cause
from acp_server.tasks.threads import Threads, in_loop
from acp_server.tools.approval import NOT_ASKED

if TYPE_CHECKING:
    from acp_server.schema.tool_call import ToolCallContent, ToolCallLocation
    from acp_server.session.client import Client
    from acp_server.session.session import Session
    from acp_server.session.subagents import Subagent
    from acp_server.session.turn import Turn
    from acp_server.tasks.tree import Node
    from acp_server.tools.editor import Editor
    from acp_server.tools.view import View

logger: logging.Logger = logging.getLogger("acp_server.tools")

OnCancel = Callable[[], "str | None"]

_AT_ONCE: Final = 256 * 1024
"""Characters of output that are shown in one round of the event loop: a thread can say far more meanwhile."""

LEFT_OUT: Final = "\n[some output is left out]\n"


class ToolContext:
    """One tool call. A parameter that is annotated with this class gets it."""

    # Without a `__dict__`, an attribute that there is not is an error, and not one of the author's that has no effect.
    __slots__ = (
        *("__weakref__", "_backlog", "_editor", "_node", "_on_cancel", "_threads", "_view", "action", "data"),
        *("executing", "id", "name", "partial", "raw_output", "turn"),
    )

    def __init__(self, turn: Turn, id: str, name: str, node: Node, view: View, threads: Threads) -> None:
        self.turn = turn
        """The turn that it is part of."""
        self.id = id
        """The `toolCallId`, as the client knows the call."""
        self.name = name
        """The tool's name."""
        self.action = NOT_ASKED
        """What the user said when asked for approval."""
        self.executing = False
        """Whether the function is running; before that, the user is asked."""
        self.data: Any = None
        """The tool's own place, for what its approval request has found out and its function needs."""
        self.raw_output: Any = None
        """What it has come to so far, for programs: anything that JSON can express. The client gets it with the final
        status, however the call ends, unless the result itself is such a value. May also be set by `on_cancel`."""
        self.partial = ""
        """What the model is told before the words of `on_cancel`, if the call is cancelled, and the client is shown in
        another way. May also be set by `on_cancel`."""
        self._node = node
        self._view = view
        self._threads = threads
        self._on_cancel: OnCancel | None = None
        self._editor: Editor | None = None
        # With it come the models of the schema, which an agent does not need before it has answered `initialize`.
        from acp_server.tools.view import UnshownPieces

        self._backlog = UnshownPieces(turn.session.client.connection.limits.content)

    @property
    def session(self) -> Session:
        """The session."""
        return self.turn.session

    @property
    def client(self) -> Client:
        """The client: its files, terminals, questions to the user. Requests that wait when the call is cancelled are
        withdrawn. In a thread: `call.run(call.client.read_text_file, path)`."""
        return self.turn.session.client

    @property
    def editor(self) -> Editor:
        """The files as the client's editor has them. Raises CapabilityMissing where it does not let agents read and
        write them: the model is told so. A tool with `needs_editor` is not run there; `Editor.of(call.session)` is None
        there."""
        if self._editor is None:
            from acp_server.tools.editor import Editor

            self._editor = Editor.of(self.turn.session)
        if self._editor is None:
            raise CapabilityMissing("call.editor", "clientCapabilities.fs.readTextFile and writeTextFile")
        return self._editor

    @property
    def primary_confirmed(self) -> bool:
        """Whether the user approved the call, or did not have to be asked."""
        return self.action.primary_confirmed

    @property
    def secondary_confirmed(self) -> bool:
        """Whether the user declined it, and did not just dismiss the question."""
        return self.action.secondary_confirmed

    def subagent(
        self, title: str, *, task: str | None = None, description: str | None = None, cwd: str | None = None
    ) -> Subagent:
        """`Turn.subagent`, for work that is part of this call, and is cancelled with it. For async tools."""
        from acp_server.session.subagents import Subagent

        return Subagent(self.turn, self._node, title, task, description, cwd)

    # -- being cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether the call is being cancelled, alone or with its turn. True from the moment of the cancel on."""
        return self._node.cause is not None

    @property
    def cause(self) -> Cause | None:
        """Why it is being cancelled."""
        return self._node.cause

    def cancel(self, cause: Cause = Cause.TIMEOUT) -> bool:
        """Cancel this call alone from outside of its function, from any thread: a watchdog, a file that went away.
        False if it has ended, or is being cancelled. Its result is `cancelled`, with the words of `on_cancel`."""
        return self.turn.client.connection.cancel(self._node, cause)

    @property
    def on_cancel(self) -> OnCancel | None:
        """What is called when the call is cancelled while the function runs: it returns what the model and the user are
        to be told, partial results for example, or None.

        It is optional. It must be quick and change nothing; it runs in a thread of its own, in which `run` is not
        possible, and what it raises is logged. What the function itself still returns after a cancel is ignored. Set it
        inside the function: it is None before and after, and setting it then has no effect.
        """
        return self._on_cancel if self.executing else None

    @on_cancel.setter
    def on_cancel(self, function: OnCancel | None) -> None:
        if function is not None and not callable(function):
            raise TypeError(f"on_cancel must be a function or None, not {type(function).__name__}")
        if function is not None:
            _check_last_words(function)
        if self.executing or function is None:
            self._on_cancel = function
        else:
            logger.warning("on_cancel of %s was set while it does not run; that has no effect", self.name)

    # -- what it says

    def progress(self, piece: Any) -> None:
        """Show more output: text, which is appended, a content block, a `schema.Diff`, a `schema.Terminal`. Never
        waits: of more than can be shown the last is shown (`Limits.output` and `content`). Nothing is shown once the
        call is cancelled or has ended."""
        if not isinstance(piece, str):
            from acp_server.tools.view import as_content

            piece = as_content(piece)
        if self._backlog.add(piece):
            # A thread that says much has the loop called once for all of it.
            self._threads.soon(self._show)

    @property
    def locations(self) -> Sequence[ToolCallLocation]:
        """The places in files that the call works at (`schema.ToolCallLocation`); editors follow them. May be set;
        raises ValueError for anything else, and nothing changes."""
        return self._view.locations

    @locations.setter
    def locations(self, places: Sequence[ToolCallLocation]) -> None:
        from acp_server.schema.tool_call import ToolCallLocation
        from acp_server.schema.words import BUILT

        # Here, where it can be raised, and before anything has changed.
        places = [ToolCallLocation.model_validate(place, context=BUILT) for place in places]
        self._tell(lambda: self._view.locate(places))

    def locate(self, path: str, line: int | None = None) -> None:
        """Add a place: an absolute path, and a line counted from 1. Raises ValueError for anything else."""
        from acp_server.schema.tool_call import ToolCallLocation

        place = ToolCallLocation(path=path, line=line)
        self._tell(lambda: self._view.add_place(place))

    def set_title(self, title: str) -> None:
        """Say anew what the call is doing, in words for the user."""
        if not isinstance(title, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a title must be text, not {type(title).__name__}")
        self._tell(lambda: self._view.entitle(title))

    def verbatim(self) -> None:
        """The text that it shows is output of a program, or the like, and no Markdown: have it shown as it is."""
        self._view.verbatim = True

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """From a plain function, in its thread: call `function(*args)` in the event loop, and await it there if it is
        async: its result.

        Raises what it raises, and RequestCancelled once the call is cancelled; so also in `on_cancel`.
        """
        return in_loop(function, *args)

    def _tell(self, change: Callable[[], None]) -> None:
        self._threads.soon(lambda: None if self.is_cancelled else change())

    def _show(self) -> None:
        if self.is_cancelled:
            self._backlog.take()
        elif self.take(_AT_ONCE):
            # The rest behind what other tasks have to do.
            self._threads.later(self._show)

    def take(self, most: float = math.inf) -> bool:
        """For the runner: hand over about so many characters of what was said so far, to be shown. True if there is
        more."""
        pieces, lost, more = self._backlog.take(most)
        if lost:
            self._view.say(LEFT_OUT)
        for is_text, some in groupby(pieces, lambda piece: isinstance(piece, str)):
            if is_text:
                self._view.say("".join(cast("Iterable[str]", some)))
            else:
                self._view.attach(*cast("Iterable[ToolCallContent]", some))
        return more


def _check_last_words(function: Callable[..., Any]) -> None:
    """Raise TypeError for an `on_cancel` that cannot be called without arguments, or whose text would have to be
    awaited: else that is found when a user presses Stop."""
    code = getattr(function, "__code__", None)
    if code is None:
        return  # of some that are not written in Python nothing is known
    needs = code.co_argcount - len(getattr(function, "__defaults__", None) or ()) - inspect.ismethod(function)
    if needs > 0 or inspect.iscoroutinefunction(function):
        what = "returns its text, and is not async" if needs <= 0 else "takes no arguments"
        raise TypeError(f"on_cancel is called at the cancel: it {what}")
