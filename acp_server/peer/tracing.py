"""The observer that makes spans of OpenTelemetry of requests, turns and tool calls.

OpenTelemetry is imported only in a program that has set a provider of tracers. The names of the attributes follow its
conventions for RPC and generative AI.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from acp_server.errors import RpcError, ToolCancelled, ToolRejected
from acp_server.peer.observer import Observer, Observers, Span

_LONGEST: Final = 200
"""Characters of the peer's texts that an attribute repeats."""

_USERS_CHOICE: Final = (ToolRejected, ToolCancelled)


class Tracing(Observer):
    """Makes a span of OpenTelemetry for each `Span`. It is the current span of the code that runs in it."""

    __slots__ = ("_contexts", "_open", "_trace", "_tracer", "_w3c")

    def __init__(self, provider: Any) -> None:
        self._tracer: Any = provider.get_tracer("acp_server")
        self._trace: Any = import_module("opentelemetry.trace")
        self._contexts: Any = import_module("opentelemetry.context")
        # The protocol prescribes this format, whichever one the program uses elsewhere.
        self._w3c: Any = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
        self._open: dict[Span, tuple[Any, Any]] = {}
        """The spans that have not ended: OpenTelemetry's span, and the token that ends it as the current one."""

    def begin(self, span: Span) -> None:
        """See `Observer`."""
        name, attributes = _described(span)
        kind = self._trace.SpanKind.SERVER if span.kind == "request" else self._trace.SpanKind.INTERNAL
        made = self._tracer.start_span(name, context=self._above(span), kind=kind, attributes=attributes)
        self._open[span] = made, self._contexts.attach(self._trace.set_span_in_context(made))

    def end(self, span: Span) -> None:
        """See `Observer`. Work that was not cancelled and failed is an error, unless the user refused a tool call. A
        cancelled span has the cause in `acp.cancelled`. A rejected span has `acp.rejected`."""
        made, token = self._open.pop(span)
        # In another task there is nothing to reset: the context of a cancelled handler ends with its task.
        with suppress(ValueError):
            token.var.reset(token)
        error = span.error
        if span.outcome == "failed" and isinstance(error, Exception) and not isinstance(error, _USERS_CHOICE):
            made.record_exception(error)
            made.set_status(self._trace.StatusCode.ERROR)
            made.set_attribute("error.type", type(error).__qualname__)
            if isinstance(error, RpcError):
                made.set_attribute("rpc.jsonrpc.error_code", error.code)
        if span.cause is not None:
            made.set_attribute("acp.cancelled", span.cause.value)
        elif span.outcome == "rejected":
            made.set_attribute("acp.rejected", True)
        made.end()

    def _above(self, span: Span) -> Any:
        """The context of the span above. None stands for the current context."""
        if span.kind == "request":
            # `_meta.traceparent` (ACP, Extensibility), or nothing: the task may have the span of another request, which
            # was running when the task began.
            carrier = {
                key: value for key in ("traceparent", "tracestate") if isinstance(value := span.meta.get(key), str)
            }
            return self._w3c.extract(carrier, context=self._contexts.Context())
        if span.parent in self._open and not self._trace.get_current_span().get_span_context().is_valid:
            # A tool call that is cancelled before it begins is reported in the context of its cancel.
            return self._trace.set_span_in_context(self._open[span.parent][0])
        return None


def _described(span: Span) -> tuple[str, dict[str, str]]:
    """The name and the attributes of the span of OpenTelemetry."""
    if span.kind == "request":
        return span.name, {
            "rpc.system": "jsonrpc",
            "rpc.method": span.name,
            "rpc.jsonrpc.version": "2.0",
            "rpc.jsonrpc.request_id": str(span.id)[:_LONGEST],
        }
    if span.kind == "turn":
        return "invoke_agent", {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": span.session_id or "",
        }
    return f"execute_tool {span.name}", {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": span.name,
        "gen_ai.tool.call.id": str(span.id),
    }


def with_tracing(observers: Observers | None) -> Observers | None:
    """The observers of a new connection: these, and OpenTelemetry's if the program has set a provider of tracers. None
    if there is not any."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(provider := trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return observers
    tracing = Tracing(provider)
    return Observers([tracing]) if observers is None else observers.joined_by(tracing)
