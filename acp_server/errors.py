"""Every exception of the package. Every layer may raise and catch from here.

It does not decide which answer a failed request gets: `acp_server.peer.outcome` does.

    AcpError
    ├── RpcError                  an error object of JSON-RPC, raised here or received from the peer
    │   ├── ParseError            -32700
    │   ├── InvalidRequest        -32600
    │   ├── MethodNotFound        -32601
    │   ├── InvalidParams         -32602
    │   ├── InternalError         -32603
    │   ├── AuthRequired          -32000
    │   ├── ResourceNotFound      -32002
    │   ├── UnsupportedProtocolVersion -32022
    │   └── RequestCancelled      -32800
    ├── ConnectionClosed          the peer is gone, so the answer will not come
    │   └── AgentExited           the process of the agent has ended, or has closed its output
    ├── RequestTimeout            the caller's own time limit ran out (also a TimeoutError)
    ├── MalformedResponse         the peer answered, but not with a JSON-RPC response
    ├── CapabilityMissing         the peer did not announce what the call needs; nothing was sent
    ├── TurnEnded                 output for a turn whose answer is already out; nothing was sent
    ├── SessionClosed             output for a session that is closed; nothing was sent
    ├── ToolError                 a tool call that did not end well; its `result` says more
    │   ├── ToolFailed            the tool failed; tools may raise it themselves
    │   ├── ToolRejected          the user did not approve it, so it was not run
    │   └── ToolCancelled         it was cancelled, alone
    ├── TooManyThreads            cancelled functions go on in so many threads that no more are started
    ├── EncodeError               a value that JSON cannot express
    ├── UsageError                the embedding program or the command line made a mistake
    ├── SessionTaken              the agent has given the id of a session to another one
    ├── CancelUnanswered          the agent did not answer a prompt that was cancelled (also a TimeoutError)
    ├── UpdatesDropped            updates of a turn that the program did not take in time
    └── UnsupportedVersion        the agent speaks another version of the protocol
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from acp_server.safe_text import in_short, indented

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
UNSUPPORTED_VERSION = -32022
REQUEST_CANCELLED = -32800


class AcpError(Exception):
    """The root of everything that this package raises on purpose."""


class RpcError(AcpError):
    """A JSON-RPC error object (JSON-RPC 2.0, section 5.1).

    Raise it in a handler to answer the request with it: `code`, `message` and `data` go to the peer as they are. Data
    that JSON cannot express is left out, and the log says so.
    A request to the peer raises it when the peer answers with an error. A handler that does not catch it answers its
    own request with it, and the log says so.

    The code of a class of its own goes with it; `RpcError("Rate limited", code=-31001)` has any other. Raises TypeError
    for a message that is not text, or a code that is not a whole number.

    `str` gives the message, the code, and of the data what is named `details` or `message`, `problems`, `path` or
    `uri`, or all of it if it is text; cut short and harmless to show. It is for logs and users; a peer is told
    `message`.
    """

    code: int = INTERNAL_ERROR
    default_message: ClassVar[str] = "Internal error"
    received: bool = False
    """Whether it is a peer's answer to a request."""
    method: str | None = None
    """The method of that request; None if it was raised here."""

    def __init__(self, message: str | None = None, *, code: int | None = None, data: Any = None) -> None:
        # A code in the place of the message would reach the peer as a text, and as another error.
        if not isinstance(cast("object", message), str | None):
            kind = type(message).__name__
            raise TypeError(f"the message of an error is text, and not of type {kind}; a code goes into code=")
        if not isinstance(cast("object", code), int | None) or isinstance(code, bool):
            raise TypeError(f"the code of an error is a whole number, and not of type {type(code).__name__}")
        if code is not None:
            self.code = code
        self.message: str = self.default_message if message is None else message
        self.data = data
        super().__init__(self.message)

    def __str__(self) -> str:
        told = f"{indented(str(self.message))} ({self.code})"
        return f"{told} ({what})" if (what := in_short(self.data)) else told

    def to_wire(self) -> dict[str, Any]:
        """The error object as it is written: `code`, `message`, and `data` unless it is None."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error

    @classmethod
    def from_wire(cls, error: dict[str, Any]) -> RpcError:
        """The exception for a received error object; its class follows the code where the code is known."""
        kind = _BY_CODE.get(error["code"], RpcError)
        return kind(str(error["message"]), code=error["code"], data=error.get("data"))


class ParseError(RpcError):
    """-32700: the bytes were not JSON."""

    code = PARSE_ERROR
    default_message = "Parse error"


class InvalidRequest(RpcError):
    """-32600: JSON, but not a request."""

    code = INVALID_REQUEST
    default_message = "Invalid request"


class MethodNotFound(RpcError):
    """-32601: the method does not exist or its capability was not announced."""

    code = METHOD_NOT_FOUND
    default_message = "Method not found"


class InvalidParams(RpcError):
    """-32602: the parameters do not fit the method."""

    code = INVALID_PARAMS
    default_message = "Invalid params"


class InternalError(RpcError):
    """-32603: the handler failed; what happened is in the log, not in the answer."""

    code = INTERNAL_ERROR


class AuthRequired(RpcError):
    """-32000: the client has to authenticate first (ACP, Authentication)."""

    code = AUTH_REQUIRED
    default_message = "Authentication required"


class ResourceNotFound(RpcError):
    """-32002: a session, file or other named resource does not exist."""

    code = RESOURCE_NOT_FOUND
    default_message = "Resource not found"


class UnsupportedProtocolVersion(RpcError):
    """-32022: the two sides have no version of the protocol in common (ACP v2, version negotiation). `data` has the
    version that was `requested`, and those that are `supported`."""

    code = UNSUPPORTED_VERSION
    default_message = "Unsupported protocol version"


class RequestCancelled(RpcError):
    """-32800: the peer says that our request was cancelled (ACP, Cancellation).

    It is an ordinary exception: the coroutine that catches it is not itself being cancelled.
    """

    code = REQUEST_CANCELLED
    default_message = "Request cancelled"


_BY_CODE: dict[int, type[RpcError]] = {kind.code: kind for kind in RpcError.__subclasses__()}


class ConnectionClosed(AcpError):
    """The connection ended before the peer answered, or before the message could be sent. `reason`: why, in words, if
    that is known."""

    def __init__(self, method: str | None = None, reason: str | None = None) -> None:
        self.method = method
        self.reason = reason
        what = "Connection closed" if method is None else f"Connection closed before {method} was answered"
        super().__init__(what if reason is None else f"{what}: {reason}")


class RequestTimeout(AcpError, TimeoutError):
    """Our own request was not answered within the time that its caller gave it; it was withdrawn."""

    def __init__(self, method: str, seconds: float) -> None:
        self.method = method
        self.seconds = seconds
        super().__init__(f"{method} was not answered within {seconds:g} s")


class MalformedResponse(AcpError):
    """The peer answered our request with something that is not a JSON-RPC response."""

    def __init__(self, method: str, reason: str) -> None:
        self.method = method
        super().__init__(f"{method}: malformed response: {indented(reason)}")


class CapabilityMissing(AcpError):
    """The peer has not announced the capability that this call needs; nothing was sent."""

    def __init__(self, method: str, capability: str) -> None:
        self.method = method
        self.capability = capability
        super().__init__(f"{method} needs the capability {capability}, which the peer did not announce")


class TurnEnded(AcpError):
    """Output for a turn that is already answered: it would reach the client too late, so it was not sent."""


class SessionClosed(AcpError):
    """Output for a session that is closed; it was not sent."""


class ToolError(AcpError):
    """A tool call that did not end well. `message`: what to tell the model, or None; `result`: its ToolResult, if it
    came from a call."""

    def __init__(self, message: str | None = None, *, result: Any = None) -> None:
        # An exception, too, is often passed on like this, and no reader of the message expects it.
        self.message: str | None = None if message is None else str(message)
        self.result = result
        super().__init__(self.message or type(self).__doc__)


class ToolFailed(ToolError):
    """The tool failed.

    Raise it in a tool with a message that is fit for the model and the user; the texts of all other exceptions are kept
    from the user.
    """


class ToolRejected(ToolError):
    """The user did not approve the tool, so it was not run."""


class ToolCancelled(ToolError):
    """The tool was cancelled, and the turn goes on."""


class TooManyThreads(AcpError):
    """Functions that were cancelled still run in so many threads that no more are started."""


class EncodeError(AcpError):
    """A value that cannot be written as JSON."""


class UsageError(AcpError):
    """The embedding program or the command line asked for something that cannot work; the text says what."""


# What can go wrong with an agent, as its client sees it.


class AgentExited(ConnectionClosed):
    """The agent's process is gone, or it has closed its output: no answer will come.

    `exit_code` is None if the process still runs; minus the number of the signal if one ended it. `stderr` is the end
    of what it wrote there.
    """

    def __init__(self, method: str | None, exit_code: int | None, stderr: str) -> None:
        super().__init__(method)
        self.exit_code = exit_code
        self.stderr = stderr
        if exit_code is None:
            what = "the agent closed its output although it still runs"
        elif exit_code < 0:
            what = f"the agent was ended by signal {-exit_code}"
        else:
            what = f"the agent exited with status {exit_code}"
        if method is not None:
            what += f"; it {'has not' if exit_code is None else 'ended before it'} answered {method}"
        if stderr:
            # It may be older than what ended the agent.
            what += "; the end of its log:" + indented(f"\n{stderr}")
        self.args: tuple[Any, ...] = (what,)


class SessionTaken(AcpError):
    """An id that means one session here is given to another by the agent, or was while the session was being taken up.

    Nothing is sent for the session that has lost its id: it would reach the other one.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"the id {session_id!r} stands for another session by now")


class CancelUnanswered(AcpError, TimeoutError):
    """The agent did not answer a cancelled prompt, so that the prompt was withdrawn `seconds` after its cancel.

    What the agent still says of that turn does not belong to it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"the agent had not answered a cancelled session/prompt after {seconds:.1f} s")


class UpdatesDropped(AcpError):
    """Of a turn, `count` updates have been dropped so far, and all that follow will be: the program has not taken those
    before them for too long. The turn goes on, and its answer is not affected."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(f"{count} updates of the turn were dropped: those before them were not taken in time")


class UnsupportedVersion(AcpError):
    """The agent does not speak the version of the protocol that this client speaks (ACP, Initialization)."""

    def __init__(self, offered: int, wanted: int) -> None:
        self.offered = offered
        self.wanted = wanted
        super().__init__(f"the agent speaks version {offered} of the protocol, this client version {wanted}")
