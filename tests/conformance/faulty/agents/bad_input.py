"""Faults at input that is not what it should be."""

from __future__ import annotations

import sys

from clean import Clean
from rpc import Batch, Json, Request, RpcError


class EndsAtBadJson(Clean):
    """Ends at a line that is not JSON."""

    def unreadable(self, line: bytes) -> None:
        sys.exit(1)


class SilentAtBadJson(Clean):
    """Says nothing to a line that is not JSON."""

    def unreadable(self, line: bytes) -> None:
        pass


class ParseErrorWithId(Clean):
    """Gives the parse error the id 0."""

    def unreadable(self, line: bytes) -> None:
        self.refuse(0, -32700, "Parse error", None)


class WrongParseCode(Clean):
    """Answers -32600 to a line that is not JSON."""

    def unreadable(self, line: bytes) -> None:
        self.refuse(None, -32600, "Invalid Request", None)


class EndsAtScalar(Clean):
    """Ends at a line that is a number or a string."""

    def take(self, value: Json, batch: Batch | None) -> None:
        value.get("method")
        super().take(value, batch)


class SilentAtScalar(Clean):
    """Says nothing to a line that is a number or a string."""

    def take(self, value: Json, batch: Batch | None) -> None:
        if isinstance(value, dict):
            super().take(value, batch)


class EndsAtBadResponse(Clean):
    """Ends at a response whose error is a string."""

    def take_response(self, value: dict[str, Json]) -> None:
        value.get("error", {}).get("code")
        super().take_response(value)


class AnswersStrayResponses(Clean):
    """Answers a response to a request that it never made."""

    def take_response(self, value: dict[str, Json]) -> None:
        if value.get("id") in self.calls:
            super().take_response(value)
        else:
            self.refuse(value.get("id"), -32600, "Nobody asked", None)


class EndsAtInvalidUtf8(Clean):
    """Ends at a byte that is not UTF-8."""

    def receive(self, line: bytes) -> None:
        line.decode("utf-8")
        super().receive(line)


class EndsAtDeepNesting(Clean):
    """Ends at a line that is nested deeply."""

    def decode(self, line: bytes) -> Json:
        try:
            return super().decode(line)
        except RecursionError:
            sys.exit(1)


class NoLongLines(Clean):
    """Ends at a line of more than 64 KiB."""

    def receive(self, line: bytes) -> None:
        if len(line) > 65536:
            raise BufferError("the line is too long")
        super().receive(line)


class AnyVersionIsFine(Clean):
    """Runs a message that does not say `jsonrpc`."""

    def is_message(self, value: dict[str, Json]) -> bool:
        return super().is_message({**value, "jsonrpc": "2.0"})


class AnyParamsAreFine(Clean):
    """Makes a session of parameters that are not those of session/new."""

    def directory(self, request: Request) -> str:
        return "/"


class WrongParamsCode(Clean):
    """Answers parameters that do not fit with -32603."""

    def fail(self, request: Request, error: RpcError) -> None:
        super().fail(request, RpcError(-32603, error.message) if error.code == -32602 else error)


class EndsAtBlankLine(Clean):
    """Ends at a blank line."""

    def receive(self, line: bytes) -> None:
        if not line.strip():
            sys.exit(1)
        super().receive(line)


class BadNotificationEnds(Clean):
    """Ends at a notification whose parameters do not fit."""

    def take_notification(self, method: str, params: Json) -> None:
        if method == "session/cancel":
            params["sessionId"].strip()
        super().take_notification(method, params)
