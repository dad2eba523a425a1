"""Runs one tool call from `pending` to its end: checks it, asks for approval, runs the function and reports the result
(ACP, Tool Calls).

A call is a node below its turn's node and has its own task. If the node is cancelled before the function ends, the call
is cancelled, whatever the function then returns or raises.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import suppress
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import anyio

from acp_server.errors import CapabilityMissing, ConnectionClosed, InvalidParams, RpcError, ToolFailed, TooManyThreads
from acp_server.peer.observer import Span
from acp_server.peer.outcome import report_cancelled
from acp_server.safe_text import in_short, one_line
from acp_server.session.updates import LiveTurn
from acp_server.store.records import ToolResult
from acp_server.tasks.cause import Cause, program_end
from acp_server.tasks.grace import Job, Watchdog, grace
from acp_server.tasks.threads import Worker
from acp_server.tasks.tree import Node
from acp_server.tools.approval import for_users
from acp_server.tools.context import CallState, ToolContext
from acp_server.tools.output import Output, Pieces, is_large, plain_copy, problems_in, snapshot, yields
from acp_server.tools.permission import Permission
from acp_server.tools.session_tools import Calls
from acp_server.tools.tool import Tool
from acp_server.tools.view import TITLE, UnshownPieces, View

if TYPE_CHECKING:
    from acp_server.tools.approval import Approvals

logger: logging.Logger = logging.getLogger("acp_server.tools")

_HEAR_OUT: Final = 0.5
"""Seconds that a slow `on_cancel` has before the call ends without its text."""

_FAILED: Final = "The tool failed."
EDITOR_ONLY: Final = "The tool was not run, because it needs an editor that can read and write files for it."


class _Refused(Exception):
    """Ends the body of a call that was not approved. Its text is for the model."""

    def __init__(self, words: str, *, cancelled: bool) -> None:
        super().__init__(words)
        self.status: Literal["cancelled", "rejected"] = "cancelled" if cancelled else "rejected"


class Execution(Job):
    """One call of one tool."""

    def __init__(
        self, turn: LiveTurn, tool: Tool[Any], arguments: Mapping[str, Any], id: str, given: str, approvals: Approvals
    ) -> None:
        """`id`: the `toolCallId`. `given`: the id that the caller gave."""
        connection = turn.session.client.connection
        node = Node(turn.node, f"tool call {tool.name}")
        watch = connection.watchdog
        if tool.grace is not None:
            watch = connection.watchdogs.setdefault(tool.grace, Watchdog(tool.grace, watch.spawner))
        super().__init__(node, connection.work, watch)
        self._turn = turn
        self._connection = connection
        self._tool = tool
        self._arguments = arguments
        self._shown: Any = plain_copy(arguments)
        """The arguments for the client, as plain JSON; None if the client does not get them."""
        self._is_large = self._shown is None and is_large(arguments)
        self._is_slow = tool.reads_slowly or self._is_large
        self._read: dict[str, Any] | None = None
        """The checked arguments for the function; None until the arguments are read."""
        self._unfit: InvalidParams | None = None
        self._approvals = approvals
        self._threads = connection.threads
        self._view = View(turn, id)
        backlog = UnshownPieces(connection.limits.content)
        self.call: Final = CallState(turn, tool, id, given, node, self._view, self._threads, backlog)
        self._context = ToolContext(self.call)
        self._last_words: Worker | None = None
        self._heard = anyio.Event()
        self._first_title = ""
        self._permission: Permission | None = None
        self._ending: BaseException | None = None
        self._result: ToolResult | None = None
        self._span: Span | None = None
        """The call for observers; None without observers."""
        if connection.observers is not None:
            self._span = Span("tool", tool.name, id, session_id=turn.session.id, parent=turn.span)

    async def run(self) -> ToolResult:
        """Run the call and return its result. If the caller is cancelled, the call is cancelled and its cleanup is
        awaited."""
        calls: Calls = self._turn.tool_calls
        # Added before its first update, because the client may cancel it as soon as it gets that.
        calls.add(self)
        try:
            self._begin()
        except BaseException:
            calls.remove(self)
            self.node.close()
            raise
        try:
            self.start(self._body)
            await self.wait()
        finally:
            if self._last_words is not None:
                with grace(_HEAR_OUT):
                    await self._heard.wait()
            if self._result is None:
                self.finish()
            calls.remove(self)
        if self._ending is not None:
            raise self._ending
        assert self._result is not None
        return self._result

    def cancel(self, cause: Cause) -> bool:
        """Cancel only this call. May be called from any thread. Returns False if the call has ended or was cancelled
        already."""
        return self._connection.cancel(self.node, cause)

    def finish(self) -> None:
        """End the call as cancelled for its turn and its client, even if the function still runs."""
        if self._result is None:
            self._end("cancelled", self._words())

    # -- its life

    def _begin(self) -> None:
        """Read the arguments, and send the first update. There is no checkpoint in between, so the question shows the
        arguments that the function gets."""
        tool = self._tool
        if not self._is_slow:
            # After a failure, `_body` reads the arguments again and reports the problem.
            with suppress(Exception):
                self._read = tool.read(self._arguments)
        title = tool.title if isinstance(tool.title, str) else self._title()
        if self._shown is None:
            self._shown = snapshot(self._arguments)
        # A function of the author, such as a title, may have cancelled the call: then the client sees nothing of it.
        if self.node.cause is None:
            self._view.begin(title, tool.kind, tool.name, self._shown)

    async def _body(self) -> Any:
        # Author code may swallow a cancel, so the cause is checked again below.
        tool, call, context, node = self._tool, self.call, self._context, self.node
        if tool.needs_editor and not tool.runs_in(self._turn.session):
            # Before the question, because no answer would help. A model may know the name from an earlier client.
            raise ToolFailed(EDITOR_ONLY)
        arguments = self._read if self._read is not None else await self._late_read()
        title = tool.title if isinstance(tool.title, str) else self._title(arguments)
        if tool.approval:
            if self._is_large:
                raise ToolFailed(
                    "The tool was not run, because its arguments have too many members to show to the user."
                )
            permission = Permission(self.call, context, self._approvals)
            await permission.prepare(arguments, title, self._shown)
            if node.cause is not None:
                return None
            self._permission = permission
            call.action, why_not = await permission.decide()
            if permission.always is not None:
                self._decide_others(permission.key, permission.always)
            if not call.action.primary_confirmed and not tool.answers_refusal:
                raise _Refused(why_not, cancelled=permission.cancelled)
        if node.cause is not None:
            return None
        if call.action.primary_confirmed:
            self._view.started()
        if tool.takes_context is not None:
            arguments[tool.takes_context] = context
        call.executing = True
        try:
            if self._span is not None and (observers := self._connection.observers) is not None:
                observers.begin(self._span)
            return await self._execute(arguments)
        finally:
            call.executing = False

    async def _late_read(self) -> dict[str, Any]:
        tool = self._tool
        try:
            if self._is_slow:
                name = f"the check of the arguments of {tool.name}"
                arguments: dict[str, Any] = await self._threads.run(name, tool.read, self._arguments)
            else:
                arguments = tool.read(self._arguments)
        except InvalidParams as error:
            self._unfit = error
            raise
        # The caller may have changed them meanwhile.
        self._is_large = is_large(self._arguments)
        self._shown = snapshot(self._arguments)
        return arguments

    def _decide_others(self, key: str | None, allowed: bool) -> None:
        """Apply a decision for all calls with this key to the other running calls of the turn."""
        for other in self._turn.tool_calls.each():
            if other._permission is not None and other._permission.key == key:
                other._permission.decide_for_all(allowed)

    async def _execute(self, arguments: dict[str, Any]) -> Output:
        tool = self._tool
        if tool.is_async:
            value = tool.function(**arguments)
        else:
            value = await self._threads.run(tool.name, self._in_thread, arguments)
        while inspect.isawaitable(value):
            # More than once if an async function returns another awaitable.
            value = await value
        if isinstance(value, AsyncGenerator):
            value = await self._pieces().stream(cast("AsyncGenerator[Any]", value))
        elif isinstance(value, Generator):
            value = await self._threads.run(tool.name, self._walk, value)
        return value if isinstance(value, Output) else Output(value)

    def _in_thread(self, arguments: dict[str, Any]) -> Any:
        if self.node.cause is not None:
            # A cancel in the moment in which the call gets its thread does not end the wait for the thread.
            return None
        value = self._tool.function(**arguments)
        return self._walk(value) if yields(value) else value

    def _walk(self, generator: Generator[Any, Any, Any]) -> Output:
        return self._pieces().walk(generator)

    def _pieces(self) -> Pieces:
        return Pieces(self._context, self._turn.session.updates, lambda: self.node.cause is not None)

    def over(self, value: Any, error: BaseException | None) -> None:
        """See `Job`."""
        if error is not None and program_end(error) is not None:
            self._ending = error
        if (cause := self.node.cause) is not None:
            # A ToolFailed is not a fault of the program, and its text comes too late.
            if error is not None and not isinstance(error, ToolFailed):
                report_cancelled(logger, f"the tool {self._tool.name!r}", cause, error)
            return
        try:
            if error is not None:
                self._fail(error)
            elif not self.call.action.primary_confirmed:
                # The function was called without approval, and returned a message.
                self._end("rejected", value.message, last=value.message)
            else:
                if value.content:
                    self._view.keep(value.content)
                self._end("completed", value.message, last=value.text, value=value.value, raw_output=value.raw_output)
        except Exception:
            # The `str` of an author's exception may raise, for example.
            logger.exception("cannot send the result of the tool %s", self._tool.name)
            self._end("failed", _FAILED, last=_FAILED, error=error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, _Refused):
            self._end(error.status, str(error), last=for_users(str(error)))
            return
        if isinstance(error, ToolFailed):
            words = error.message or _FAILED
        elif isinstance(error, TooManyThreads):
            logger.error("the tool %r was not run: %s", self._tool.name, error)
            words = "Too much that was cancelled still runs, so it was not run."
        elif self._unfit is not None:
            words = f"The arguments are invalid: {problems_in(self._unfit)}"
        elif isinstance(error, RpcError):
            # Clients in TypeScript answer most failures as an internal error, with the reason in the data.
            cause = in_short(error.data) if error.received else ""
            words = ": ".join(filter(None, (str(error.message), cause))) or _FAILED
        elif isinstance(error, CapabilityMissing):
            # The text gives the user the reason, and keeps the model from trying again.
            logger.warning("the tool %r failed: %s", self._tool.name, error)
            words = f"The client cannot do what the tool needs: {error}"
        elif isinstance(error, ConnectionClosed):
            words = "The client is gone."
        else:
            logger.error("the tool %r failed", self._tool.name, exc_info=error)
            words = _FAILED
        self._end("failed", words, last=words, error=error)

    # -- its end

    def was_cancelled(self, node: Node) -> None:
        """See `SupervisedWork`. Get the text from `on_cancel` and end the call for the client, before the cleanup."""
        super().was_cancelled(node)
        # Output from a thread before the cancel is part of the result.
        self.call.take()
        ask = self._context.on_cancel
        worker = None
        if ask is not None:
            try:
                worker = self._threads.ask(f"on_cancel of {self._tool.name}", ask)
            except TooManyThreads:
                logger.exception("on_cancel of %s was not called, because too many threads still run", self._tool.name)
        self._last_words = worker
        # A quick `on_cancel` ends here, before the values that it reads can change.
        if worker is None or self._threads.briefly(worker):
            self._heard.set()
            self.finish()
        else:
            self._connection.background(self._hear_out, worker)

    async def _hear_out(self, worker: Worker) -> None:
        """Wait a limited time for a slow `on_cancel`, then end the call."""
        try:
            with anyio.move_on_after(min(_HEAR_OUT, self._connection.limits.end_grace / 2)):
                await worker.wait()
        finally:
            self._heard.set()
            self.finish()

    def _words(self) -> str | None:
        """Return the text from `on_cancel`, or None. A slow or failed `on_cancel` is logged."""
        worker = self._last_words
        if worker is None:
            return None
        if not worker.ended.is_set():
            logger.warning("on_cancel of %s takes too long; the call ends without its text", self._tool.name)
            worker.abandon()
        elif worker.error is not None:
            logger.error("on_cancel of %s failed", self._tool.name, exc_info=worker.error)
        elif isinstance(worker.value, str):
            return worker.value
        elif worker.value is not None:
            if inspect.iscoroutine(worker.value):
                worker.value.close()
            logger.warning(
                "on_cancel of %s must return a string, but returned %s", self._tool.name, type(worker.value).__name__
            )
        return None

    def _end(
        self,
        status: Literal["completed", "failed", "rejected", "cancelled"],
        message: str | None,
        *,
        last: str | None = None,
        value: Any = None,
        error: BaseException | None = None,
        raw_output: Any = None,
    ) -> None:
        if error is not None:
            _let_go(error)
        told = message
        if status == "cancelled" and self._context.partial:
            told = "\n".join(filter(None, (self._context.partial, message and f"[{message}]")))
        self._result = ToolResult(self.call.given, self._tool.name, status, told, value, error)
        self._turn.tool_ended(self._result, self.call.id)
        if self._span is not None and (observers := self._connection.observers) is not None:
            observers.end(self._span, self.node.cause, error, status)
        if raw_output is None and self._context.raw_output is not None:
            raw_output = snapshot(self._context.raw_output)
        # The protocol has no status for rejected and cancelled calls.
        meta = {"outcome": status} if status in ("rejected", "cancelled") else None
        ended = "completed" if status == "completed" else "failed"
        self._view.end(
            ended, last=message if last is None and status == "cancelled" else last, meta=meta, raw_output=raw_output
        )

    def _title(self, arguments: dict[str, Any] | None = None) -> str:
        """Return the title from the author's function. Without `arguments`, return the title of the first update."""
        title = self._tool.title
        assert callable(title)
        if arguments is None:
            if self._is_slow:
                # The title follows when the arguments are checked.
                self._first_title = self._tool.name
                return self._first_title
            try:
                self._first_title = _text(title(**self._tool.read(self._arguments)))
            except Exception:
                # The call still begins; `_body` fails with the same exception and reports it.
                self._first_title = self._tool.name
            return self._first_title
        words = _text(title(**arguments))
        if words != self._first_title:
            self._view.entitle_now(words)
        return words


def _let_go(error: BaseException) -> None:
    """Free the frames of an exception. A turn keeps the exception until it ends, and the frames may hold megabytes of
    arguments."""
    if isinstance(error, InvalidParams):
        # Its data lists the problems; its context holds the arguments.
        error.__context__ = None
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__


def _text(title: Any) -> str:
    if not isinstance(title, str):
        raise TypeError(f"a title must be a string, not {type(title).__name__}")
    # Made of arguments from the model, so it may have any length and line breaks.
    return one_line(title, TITLE)
