"""Every exception of the package, for every layer.

`acp_server.peer.outcome` decides which response a failed request gets.

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
    ├── ConnectionClosed          the peer is gone, so no response will come
    │   └── AgentExited           the process of the agent has ended, or has closed its output
    ├── RequestTimeout            the caller's time-out is over (also a TimeoutError)
    ├── MalformedResponse         the peer answered, but not with a valid response
    ├── CapabilityMissing         the peer did not announce the capability; nothing was sent
    ├── TurnEnded                 an update for a turn that is answered; nothing was sent
    ├── SessionClosed             an update for a session that is closed; nothing was sent
    ├── ToolError                 a tool call that did not complete; its `result` has details
    │   ├── ToolFailed            the tool failed; tools may raise it themselves
    │   ├── ToolRejected          the user did not approve it, so it was not run
    │   └── ToolCancelled         the call was cancelled, and the turn continues
    ├── TooManyThreads            too many threads still run cancelled functions
    ├── EncodeError               a value that JSON cannot express
    ├── UsageError                a mistake of the embedding program or the command line
    ├── SessionTaken              the agent has given the id of a session to another one
    ├── CancelUnanswered          the agent did not answer a cancelled prompt (also a TimeoutError)
    ├── UpdatesDropped            updates of a turn that the program did not read in time
    └── UnsupportedVersion        the agent has another version of the protocol
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
    """The base of every exception that this package raises on purpose."""


class RpcError(AcpError):
    """A JSON-RPC error object (JSON-RPC 2.0, section 5.1).

    Raise it in a handler to answer the request with this error: `code`, `message` and `data` are sent unchanged. Data
    that JSON cannot express is omitted, and the omission is logged. A request to the peer raises an RpcError when the
    peer answers with an error. If a handler does not catch it, its own request is answered with the same error, and the
    error is logged.

    A subclass has its own code. For any other code write, for example, `RpcError("Rate limited", code=-31001)`. Raises
    TypeError for a message that is not text, or a code that is not a whole number.

    `str()` returns the message, the code, and some of the data: `details` or `message`, `problems`, `path` and `uri`,
    or all data if it is text. These are shortened and escaped. `str()` is for logs and users; a peer gets `message`.
    """

    code: int = INTERNAL_ERROR
    default_message: ClassVar[str] = "Internal error"
    received: bool = False
    """Whether the error is a peer's response to a request."""
    method: str | None = None
    """The method of the request that the peer answered with this error; None if the error was raised here."""

    def __init__(self, message: str | None = None, *, code: int | None = None, data: Any = None) -> None:
        # A code passed as the message would reach the peer as a text, and with another error code.
        if not isinstance(cast("object", message), str | None):
            kind = type(message).__name__
            raise TypeError(f"the message of an error must be a string, not {kind}; pass an error code as code=")
        if not isinstance(cast("object", code), int | None) or isinstance(code, bool):
            raise TypeError(f"the code of an error must be an int, not {type(code).__name__}")
        if code is not None:
            self.code = code
        self.message: str = self.default_message if message is None else message
        self.data = data
        super().__init__(self.message)

    def __str__(self) -> str:
        told = f"{indented(str(self.message))} ({self.code})"
        return f"{told} ({what})" if (what := in_short(self.data)) else told

    def to_wire(self) -> dict[str, Any]:
        """Return the error object on the wire: `code`, `message`, and `data` unless it is None."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error

    @classmethod
    def from_wire(cls, error: dict[str, Any]) -> RpcError:
        """Return the exception for a received error object. Its class is the class for the code, if there is one."""
        kind = _BY_CODE.get(error["code"], RpcError)
        return kind(str(error["message"]), code=error["code"], data=error.get("data"))


class ParseError(RpcError):
    """-32700: the received bytes were not JSON."""

    code = PARSE_ERROR
    default_message = "Parse error"


class InvalidRequest(RpcError):
    """-32600: the message is JSON, but not a request."""

    code = INVALID_REQUEST
    default_message = "Invalid request"


class MethodNotFound(RpcError):
    """-32601: the method does not exist, or its capability was not announced."""

    code = METHOD_NOT_FOUND
    default_message = "Method not found"


class InvalidParams(RpcError):
    """-32602: the parameters are not valid for the method."""

    code = INVALID_PARAMS
    default_message = "Invalid params"


class InternalError(RpcError):
    """-32603: the handler failed. The cause is in the log, not in the response."""

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
    """-32022: the two sides have no common version of the protocol (ACP v2, version negotiation). `data` has the
    `requested` version and the `supported` versions."""

    code = UNSUPPORTED_VERSION
    default_message = "Unsupported protocol version"


class RequestCancelled(RpcError):
    """-32800: the peer reports that this side's request was cancelled (ACP, Cancellation).

    It is an ordinary exception, which does not mean that the coroutine that catches it is being cancelled.
    """

    code = REQUEST_CANCELLED
    default_message = "Request cancelled"


_BY_CODE: dict[int, type[RpcError]] = {kind.code: kind for kind in RpcError.__subclasses__()}


class ConnectionClosed(AcpError):
    """The connection ended before the peer answered, or before the message was sent. `reason`: the reason as a text, if
    it is known."""

    def __init__(self, method: str | None = None, reason: str | None = None) -> None:
        self.method = method
        self.reason = reason
        what = "Connection closed" if method is None else f"Connection closed before {method} was answered"
        super().__init__(what if reason is None else f"{what}: {reason}")


class RequestTimeout(AcpError, TimeoutError):
    """A request of this side was not answered within its caller's time-out, and was withdrawn."""

    def __init__(self, method: str, seconds: float) -> None:
        self.method = method
        self.seconds = seconds
        super().__init__(f"{method} was not answered within {seconds:g} s")


class MalformedResponse(AcpError):
    """The peer's response to a request is not a JSON-RPC response, or its result is invalid."""

    def __init__(self, method: str, reason: str) -> None:
        self.method = method
        super().__init__(f"{method}: malformed response: {indented(reason)}")


class CapabilityMissing(AcpError):
    """The peer has not announced the capability that this call needs. Nothing was sent."""

    def __init__(self, method: str, capability: str) -> None:
        self.method = method
        self.capability = capability
        super().__init__(f"{method} needs the capability {capability}, which the peer did not announce")


class TurnEnded(AcpError):
    """The update belongs to a turn that is already answered. It would reach the client too late, so it was not sent."""


class SessionClosed(AcpError):
    """The update belongs to a session that is closed. It was not sent."""


class ToolError(AcpError):
    """A tool call failed, was rejected or was cancelled. `message`: the text for the model, or None. `result`: the
    ToolResult, if there was a tool call."""

    def __init__(self, message: str | None = None, *, result: Any = None) -> None:
        # Callers often pass an exception, which readers of `message` do not expect.
        self.message: str | None = None if message is None else str(message)
        self.result = result
        super().__init__(self.message or type(self).__doc__)


class ToolFailed(ToolError):
    """The tool failed.

    Raise it in a tool with a message for the model and the user. The texts of all other exceptions are hidden from the
    user.
    """


class ToolRejected(ToolError):
    """The user did not approve the tool, so it was not run."""


class ToolCancelled(ToolError):
    """The tool was cancelled, and the turn continues."""


class TooManyThreads(AcpError):
    """So many threads still run cancelled functions that no more are started."""


class EncodeError(AcpError):
    """JSON cannot express the value."""


class UsageError(AcpError):
    """The embedding program or the command line requested something impossible. The message says what."""


# Failures of an agent, as its client sees them.


class AgentExited(ConnectionClosed):
    """The agent's process has ended, or has closed its output, so no response will come.

    `exit_code`: None if the process still runs; the negative number of the signal if a signal ended it. `stderr`: the
    end of the process's standard error.
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
            # It may be older than the cause of the exit.
            what += "; the end of its log:" + indented(f"\n{stderr}")
        self.args: tuple[Any, ...] = (what,)


class SessionTaken(AcpError):
    """The agent has given the id of an open session to another session, perhaps while the session was being loaded.

    Nothing is sent for the session that lost its id, because it would reach the other session.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"the id {session_id!r} now belongs to another session")


class CancelUnanswered(AcpError, TimeoutError):
    """The agent did not answer a cancelled prompt, so the prompt was withdrawn `seconds` after its cancel.

    Updates that arrive later are not counted as updates of that turn.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"the agent had not answered a cancelled session/prompt after {seconds:.1f} s")


class UpdatesDropped(AcpError):
    """`count` updates of a turn have been dropped so far, because the program read too slowly. All later updates will
    be dropped too. The turn continues, and its result is not affected."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(f"{count} updates of the turn were dropped: earlier ones were not read in time")


class UnsupportedVersion(AcpError):
    """The agent does not support this client's version of the protocol (ACP, Initialization)."""

    def __init__(self, offered: int, wanted: int) -> None:
        self.offered = offered
        self.wanted = wanted
        super().__init__(f"the agent speaks version {offered} of the protocol, this client version {wanted}")
