"""Spans of OpenTelemetry: of the peer's requests, and of what runs for them.

Nothing of OpenTelemetry is imported here: a program that has set up no tracing has not imported it either, and pays for
none. What a span's attributes are called follows OpenTelemetry's conventions for RPC and generative AI.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from acp_server.errors import RpcError, ToolCancelled, ToolRejected

if TYPE_CHECKING:
    from acp_server.tasks.tree import Node

_LONGEST: Final = 200
"""Characters of what the peer made up that an attribute repeats."""

_USERS_CHOICE: Final = (ToolRejected, ToolCancelled)


class Traced(Protocol):
    """What a span tells of a request, see `acp_server.peer.call.Call`."""

    node: Node

    @property
    def id(self) -> object: ...  # noqa: D102
    @property
    def method(self) -> str: ...  # noqa: D102
    @property
    def meta(self) -> dict[str, Any]: ...  # noqa: D102


C = TypeVar("C", bound=Traced)


class Tracing:
    """Where the program's spans go."""

    def __init__(self, provider: Any) -> None:
        self._tracer: Any = provider.get_tracer("acp_server")
        self._trace: Any = import_module("opentelemetry.trace")
        self._no_context: Any = import_module("opentelemetry.context").Context
        # It is in the protocol, so whatever format the program uses elsewhere.
        self._w3c: Any = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()

    async def request(self, handler: Callable[[C], Awaitable[Any]], call: C) -> Any:
        """Answer a request in a span below that of its `_meta.traceparent` (ACP, Extensibility), else in a
        span of its own."""
        parent = {key: value for key in ("traceparent", "tracestate") if isinstance(value := call.meta.get(key), str)}
        attributes = {
            "rpc.system": "jsonrpc",
            "rpc.method": call.method,
            "rpc.jsonrpc.version": "2.0",
            "rpc.jsonrpc.request_id": str(call.id)[:_LONGEST],
        }
        # The task may have the span of another request, which was under way when it began.
        context = self._w3c.extract(parent, context=self._no_context())
        with self.span(call.method, call.node, attributes, context=context, kind=self._trace.SpanKind.SERVER):
            return await handler(call)

    @contextmanager
    def span(self, name: str, node: Node, attributes: Mapping[str, str], **options: Any) -> Generator[None]:
        """A span for the work in a node. An exception makes it a failure, unless it is a user's no. If the node was
        cancelled, it is not a failure, and the span says why (`acp.cancelled`)."""
        options |= {"record_exception": False, "set_status_on_exception": False}
        with self._tracer.start_as_current_span(name, attributes=attributes, **options) as span:
            try:
                yield
            except Exception as error:
                if node.cause is None and not isinstance(error, _USERS_CHOICE):
                    span.record_exception(error)
                    span.set_status(self._trace.StatusCode.ERROR)
                    span.set_attribute("error.type", type(error).__qualname__)
                    if isinstance(error, RpcError):
                        span.set_attribute("rpc.jsonrpc.error_code", error.code)
                raise
            finally:
                if node.cause is not None:
                    span.set_attribute("acp.cancelled", node.cause.value)


def tracing() -> Tracing | None:
    """That of a program that has set a provider of tracers, else None."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else Tracing(provider)
