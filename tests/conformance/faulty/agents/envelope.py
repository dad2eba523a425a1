"""Faults in the envelope of messages and in how they are put on the wire."""

from __future__ import annotations

import json

from clean import Clean
from rpc import Batch, Json, Request, RpcError
from situations import Session


class TwoAnswers(Clean):
    """Answers every request twice."""

    def answer(self, request: Request, message: Json) -> None:
        super().answer(request, message)
        self.write(message)


class BothResultAndError(Clean):
    """Puts `error: null` beside every result, as JSON-RPC 1.0 had it."""

    def succeed(self, request: Request, result: Json) -> None:
        self.answer(request, {"jsonrpc": "2.0", "id": request.id, "result": result, "error": None})


class OldVersion(Clean):
    """Calls its protocol JSON-RPC 1.0."""

    def encode(self, message: Json) -> bytes:
        return super().encode(message).replace(b'"jsonrpc": "2.0"', b'"jsonrpc": "1.0"')


class NoVersion(Clean):
    """Leaves `jsonrpc` out."""

    def encode(self, message: Json) -> bytes:
        return super().encode(message).replace(b'"jsonrpc": "2.0", ', b"")


class CodeAsText(Clean):
    """Writes error codes as strings."""

    def fail(self, request: Request, error: RpcError) -> None:
        body = {"code": str(error.code), "message": error.message}
        self.answer(request, {"jsonrpc": "2.0", "id": request.id, "error": body})


class ErrorAsText(Clean):
    """Answers a string in the place of the error object."""

    def fail(self, request: Request, error: RpcError) -> None:
        self.answer(request, {"jsonrpc": "2.0", "id": request.id, "error": error.message})


class NoErrorMessage(Clean):
    """Errors have a code and nothing else."""

    def fail(self, request: Request, error: RpcError) -> None:
        self.answer(request, {"jsonrpc": "2.0", "id": request.id, "error": {"code": error.code}})


class AnswersNotifications(Clean):
    """Answers a notification that it does not know with an error."""

    def notification(self, method: str, params: Json) -> None:
        if method == "session/cancel":
            super().notification(method, params)
        else:
            self.refuse(None, -32601, "Method not found", None)


class UnknownMethodSucceeds(Clean):
    """Answers `null` to a method that it does not have."""

    def fail(self, request: Request, error: RpcError) -> None:
        if error.code == -32601:
            self.succeed(request, None)
        else:
            super().fail(request, error)


class UnknownMethodUnanswered(Clean):
    """Says nothing to a method that it does not have."""

    def fail(self, request: Request, error: RpcError) -> None:
        if error.code != -32601:
            super().fail(request, error)


class SilentAtExtensions(Clean):
    """Says nothing to a method of an extension that it does not have."""

    def fail(self, request: Request, error: RpcError) -> None:
        if error.code != -32601 or not request.method.startswith("_"):
            super().fail(request, error)


class UnknownMethodEnds(Clean):
    """Ends at a method that it does not have."""

    def take_request(self, request: Request) -> None:
        self.methods[request.method]
        super().take_request(request)


class WrongUnknownCode(Clean):
    """Answers an unknown method with -32603."""

    def fail(self, request: Request, error: RpcError) -> None:
        super().fail(request, RpcError(-32603, error.message) if error.code == -32601 else error)


class LogsToStdout(Clean):
    """Writes its log where the messages go."""

    def take(self, value: Json, batch: Batch | None) -> None:
        self.put(b"DEBUG got a message\n")
        super().take(value, batch)


class PrettyPrints(Clean):
    """Spreads a message over several lines."""

    def encode(self, message: Json) -> bytes:
        return json.dumps(message, indent=2).encode() + b"\n"


class RawNewline(Clean):
    """Writes the newlines of a text as they are."""

    def say(self, session: Session, text: str) -> None:
        super().say(session, f"{text}\n")

    def encode(self, message: Json) -> bytes:
        return super().encode(message).replace(b"\\n", b"\n")


class LengthHeaders(Clean):
    """Frames messages as language servers do."""

    def encode(self, message: Json) -> bytes:
        body = super().encode(message)
        return b"Content-Length: %d\r\n\r\n" % len(body) + body


class ByteOrderMark(Clean):
    """Begins its output with a byte order mark."""

    def serve(self) -> None:
        self.put(b"\xef\xbb\xbf")
        super().serve()


class NotANumber(Clean):
    """Writes NaN, which is not JSON."""

    def update(self, session: Session, update: Json) -> None:
        super().update(session, {**update, "_meta": {"temperature": float("nan")}})

    def encode(self, message: Json) -> bytes:
        return json.dumps(message).encode() + b"\n"


class Latin1(Clean):
    """Encodes its output as Latin-1."""

    def say(self, session: Session, text: str) -> None:
        super().say(session, f"Voilà: {text}")

    def encode(self, message: Json) -> bytes:
        return json.dumps(message, ensure_ascii=False).encode("latin-1", "replace") + b"\n"
