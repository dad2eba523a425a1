"""Routes the agent's requests and notifications to the program's handlers, with typed parameters and results.

It also bounds the number of the agent's in-flight requests, and keeps track of its open permission requests.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, cast

import anyio
import anyio.lowlevel

from acp_server.client.handlers import AskPermission, Handlers
from acp_server.errors import InternalError, InvalidParams, MethodNotFound, UsageError
from acp_server.peer.call import Follower, Handler, LiveCall, Notice, NoticeHandler, Register, Route, Routes
from acp_server.peer.peer import Peer
from acp_server.schema import PermissionOption, RequestPermissionRequest, RequestPermissionResponse
from acp_server.schema.base import Model
from acp_server.schema.methods import METHODS
from acp_server.schema.reading import read
from acp_server.tasks.cause import Cause

logger: logging.Logger = logging.getLogger("acp_server.client")

_TERMINAL_METHODS: Final = ("create", "output", "wait_for_exit", "kill", "release")

_LARGE: Final = frozenset({"fs/read_text_file", "terminal/output"})

_Answer = Callable[[Any], Awaitable[Any]]


def client_routes(handlers: Handlers, questions: Questions, on_update: NoticeHandler) -> Routes:
    """Return the routes for `handlers`. Raises UsageError for an extension method that is already a method of the
    protocol."""
    large = _LargeAnswers()
    routes = Routes()
    routes.on_notice("session/update", Notice(on_update))

    async def permission(call: LiveCall) -> Any:
        params = call.request.params
        if questions.translate is not None:
            params = questions.translate(params, f"permission-{call.request.id}")
        return await questions.answer(call, read(RequestPermissionRequest, params))

    requests: dict[str, Handler] = {"session/request_permission": permission, "initialize": _sent_back}
    answers: dict[str, _Answer | None] = {
        "fs/read_text_file": getattr(handlers.files, "read_text_file", None),
        "fs/write_text_file": getattr(handlers.files, "write_text_file", None),
        "elicitation/create": _elicitation(handlers),
    }
    if handlers.terminals is not None:
        answers |= {f"terminal/{name}": getattr(handlers.terminals, name) for name in _TERMINAL_METHODS}
    for name, answer in answers.items():
        if answer is not None:
            requests[name] = _typed(name, answer)
    for name, answer in handlers.methods.items():
        if name in METHODS:
            raise UsageError(f"{name} is a method of the protocol; set its own field of Handlers")
        requests[name] = _raw(answer)
    registers: dict[str, Register] = {
        "session/request_permission": questions.register_permission,
        "elicitation/create": questions.register,
    }
    for name, handler in requests.items():
        routes.requests[name] = Route(large.bounded(handler) if name in _LARGE else handler, registers.get(name))
    if handlers.url_done is not None:
        routes.on_notice("elicitation/complete", Notice(_typed_notice("elicitation/complete", handlers.url_done)))
    for name, act in handlers.notifications.items():
        routes.on_notice(name, Notice(_raw_notice(act)))
    return routes


async def _sent_back(_call: LiveCall) -> None:
    # A program like `cat` sends `initialize` back, and then this error as its response, which the client's call raises.
    raise MethodNotFound("The program echoes its input, so it is not an agent")


def _typed(name: str, answer: _Answer) -> Handler:
    async def handler(call: LiveCall) -> Any:
        result = await _awaited(name, answer(read(METHODS[name].params_type, call.request.params)))
        if result is None:
            return {}
        if not isinstance(cast("object", result), (Model, dict)):
            wanted = cast("type", METHODS[name].result_type).__name__
            raise UsageError(f"the handler of {name} must return a {wanted}, but returned {result!r:.100}")
        return result

    return handler


def _raw(answer: _Answer) -> Handler:
    async def handler(call: LiveCall) -> Any:
        return await _awaited(call.method, answer(call.params))

    return handler


async def _awaited(method: str, pending: Any) -> Any:
    if not isawaitable(pending):
        raise UsageError(f"the handler of {method} must be `async def`")
    return await pending


def _typed_notice(name: str, act: Callable[[Any], Awaitable[None] | None]) -> NoticeHandler:
    def handler(_connection: Peer, params: Any) -> Awaitable[None] | None:
        return act(METHODS[name].read_params(params))

    return handler


def _raw_notice(act: Callable[[dict[str, Any]], Awaitable[None] | None]) -> NoticeHandler:
    def handler(_connection: Peer, params: Any) -> Awaitable[None] | None:
        return act(cast("dict[str, Any]", params) if isinstance(params, dict) else {})

    return handler


def _elicitation(handlers: Handlers) -> _Answer | None:
    modes: dict[str, _Answer | None] = {"form": handlers.form, "url": handlers.url}
    if not any(modes.values()):
        return None

    async def answer(request: Any) -> Any:
        ask = modes.get(request.mode)
        if ask is None:
            raise InvalidParams(f"Invalid params: the client does not support elicitations of mode {request.mode!r}")
        return await ask(request)

    return answer


_CANCELLED: Final[dict[str, Any]] = {"outcome": {"outcome": "cancelled"}}


QUESTIONS: Final = 100
"""The most permission requests and elicitations that may be open at once. Each needs the user's attention."""
LARGE_ANSWERS: Final = 2
"""The most responses with the content of a file or the output of a command that are produced at once."""


class Questions:
    """The agent's open questions to the user on one connection. `is_cancelling` returns whether a session's turn is
    being cancelled."""

    def __init__(self, ask: AskPermission, is_cancelling: Callable[[str], bool]) -> None:
        self._ask = ask
        self._is_cancelling = is_cancelling
        self._permissions: dict[str, dict[LiveCall, None]] = {}
        """The open permission requests by session."""
        self.count: int = 0
        self._has_told = False
        self.translate: Callable[[Any, str], Any] | None = None
        """Converts the parameters of a request to version 1. Its second argument is the id for a missing tool call.
        None if the parameters are of version 1 already."""

    def register(self, call: LiveCall) -> None:
        """Count a question to the user as open until its call ends; see `acp_server.peer.call.Register`.

        Raises InternalError, with `{"limit": "questions"}` as its data, if too many are open.
        """
        if self.count >= QUESTIONS:
            if not self._has_told:
                self._has_told = True
                logger.warning("the agent has too many open questions to the user; further questions are refused")
            raise InternalError("Too many questions are waiting for the user", data={"limit": "questions"})
        self.count += 1
        call.follower = _Question(self)

    def register_permission(self, call: LiveCall) -> None:
        """A permission request has arrived. It belongs to the turn that runs now, which may have ended when the
        request's handler begins."""
        self.register(call)
        session_id = call.params.get("sessionId")
        if not isinstance(session_id, str):
            return
        self._permissions.setdefault(session_id, {})[call] = None
        call.follower.over = lambda: self._left(session_id, call)
        if self._is_cancelling(session_id):
            _dismiss(call)

    def _left(self, session_id: str, call: LiveCall) -> None:
        calls = self._permissions[session_id]
        del calls[call]
        if not calls:
            del self._permissions[session_id]

    async def answer(self, call: LiveCall, request: RequestPermissionRequest) -> Any:
        """Call the program's handler. If the turn was cancelled meanwhile, the result is `cancelled`, whatever the
        handler returns."""
        answer = await _awaited(call.method, self._ask(request))
        return _CANCELLED if call.cause is Cause.SESSION else _wire(answer)

    def cancel(self, session_id: str) -> None:
        """Cancel the permission requests of this session, because its turn is cancelled. Their result is `cancelled`
        (ACP, Prompt Turn, Cancellation)."""
        for call in list(self._permissions.get(session_id, ())):
            _dismiss(call)


class _Question(Follower):
    """Counts one open question until its call ends."""

    __slots__ = ("_questions", "over")

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self.over: Callable[[], None] = lambda: None
        """Called when the call of the question ends."""

    def left(self) -> None:
        """See `Follower`."""
        self._questions.count -= 1
        self.over()


def _dismiss(call: LiveCall) -> None:
    call.partial(_CANCELLED)
    call.node.cancel(Cause.SESSION)


def _wire(answer: Any) -> Any:
    if answer is None:
        return _CANCELLED
    if isinstance(answer, PermissionOption):
        return {"outcome": {"outcome": "selected", "optionId": answer.option_id}}
    if isinstance(answer, RequestPermissionResponse):
        return answer
    raise UsageError(
        "the permission handler must return one of `request.options`, a RequestPermissionResponse or None, but "
        f"returned {answer!r:.100}"
    )


class _LargeAnswers:
    """Applies backpressure to large responses. Only a few are produced at once, and each is produced only when the
    agent has read the previous ones."""

    def __init__(self) -> None:
        self._places = anyio.Semaphore(LARGE_ANSWERS, fast_acquire=True)
        self._encoding = anyio.Lock(fast_acquire=True)

    def bounded(self, handler: Handler) -> Handler:
        """Return `handler` with responses that wait for their turn."""

        async def in_turn(call: LiveCall) -> Any:
            async with self._places:
                await call.connection.send_room()
                made = await handler(call)
                # The response is encoded after this returns, which blocks the event loop, so each response gets its own
                # round of the loop. It is buffered in the same step in which the next one gets its turn, so that the
                # next one counts it.
                async with self._encoding:
                    await anyio.lowlevel.checkpoint()
                return made

        return in_turn
