"""Repairs the messages of an MCP server before the official package reads them (MCP, Base Protocol and Tools).

The package drops messages that it cannot parse, so their calls would wait for ever. Here each response is matched to
its request, and a call fails if its response is unreadable. An invalid tool, or an invalid block of a result, is
dropped or replaced without affecting the others.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, cast

from pydantic import ValidationError

from acp_server.safe_text import one_line
from acp_server.wire import codec
from acp_server.wire.framing import HEAD, TooLong
from acp_server.wire.messages import Ignored, Invalid, Message, Response, classify, classify_head

logger: logging.Logger = logging.getLogger("acp_server.mcp")

MESSAGE: Final = 16 * 1024 * 1024
"""The most bytes of a message that is read."""

_BATCH: Final = 1_000
"""The most messages of one array."""

_SAID: Final = 1_000
"""The most problems of one server that are logged as warnings, each once."""

_ROUNDS: Final = 4
"""How often a result is validated. An error inside a part of the result is found only when the part itself is valid."""

_NAME: Final = 200
"""The most characters of a tool's name in the log."""

_BEGINNING: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[?\{"')
"""The beginning of a line that is meant to be a message. Other output of programs has a blank or another quotation mark
there."""

_LAST_ID: Final = re.compile(rb'"id":\s*(-?[0-9]{1,18}|"[ !#-\[\]-~]*")\s*(?:,\s*"jsonrpc":\s*"2\.0"\s*)?\}\s*\Z')
"""Matches the id at the end of a message, because some servers write the id after the result."""

_UNPARSED: Final = re.compile(r"Failed to parse (?:JSON response|SSE message): ")
"""The official package's error for a request over HTTP whose response it could not parse."""

_MEMBERS: Final = frozenset({"id", "result", "error"})


class Answers:
    """The responses of the server that the client calls `server`, and the requests that wait for them."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._types: Any = import_module("mcp_types")
        self._methods: Any = import_module("mcp_types.methods")
        self._versions: Any = import_module("mcp_types.version")
        self._version: str = self._versions.LATEST_HANDSHAKE_VERSION
        self._waiting: dict[int | str, str] = {}
        """The methods of pending requests, by id."""
        self._last = -1
        """The highest id so far."""
        self._said: set[str] = set()

    def asked(self, message: Any) -> None:
        """Record a message that is sent to the server."""
        if isinstance(message, self._types.JSONRPCRequest):
            id = _key(message.id)
            self._waiting[id] = message.method
            self._last = max(self._last, id) if isinstance(id, int) else self._last
        elif getattr(message, "method", None) == "notifications/cancelled":
            params: dict[str, Any] = message.params or {}
            self._waiting.pop(_key(params.get("requestId")), None)

    def read(self, line: bytes | bytearray | TooLong) -> list[Any]:
        """Return the messages of a line, for the official package."""
        if isinstance(line, TooLong):
            return self._unread(line.head, b"", f"it has more than {MESSAGE} bytes")
        try:
            value = codec.decode(codec.mended(bytes(line)))
        except codec.DecodeError:
            return self._unread(bytes(line[:HEAD]), bytes(line[-HEAD:]), "it is not JSON in UTF-8")
        return self._messages(value)

    def received(self, item: Any) -> list[Any]:
        """Return the replacement for an item from an official transport: messages in the item's envelope. The item may
        be an exception."""
        if isinstance(item, Exception):
            return self._recovered(item)
        message = item.message
        if not isinstance(message, self._types.JSONRPCResponse | self._types.JSONRPCError):
            return [item]
        value = message.model_dump(by_alias=True, exclude_unset=True)
        error: Any = value.get("error")
        if error is not None and error["code"] == self._types.PARSE_ERROR and _UNPARSED.match(error["message"]):
            # Instead of pydantic's text, which quotes pieces of the response.
            value["error"] = "it is not valid in MCP"
            read = Response(message.id, malformed=value["error"])
            return [replace(item, message=each) for each in self._message(value, read)]
        return [replace(item, message=read) for read in self._message(value, classify(value))]

    # -- messages

    def _messages(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            return self._message(value, classify(value))
        values = cast("list[Any]", value)
        if len(values) > _BATCH:
            return self._fail_all(f"it is an array of more than {_BATCH} messages")
        if not any(isinstance(each, dict) for each in values):
            return self._fail_all("it is an array without a message")
        return [message for each in values for message in self._message(each, classify(each))]

    def _message(self, value: Any, read: Message) -> list[Any]:
        if isinstance(read, Response):
            if read.id is None or _key(read.id) not in self._waiting:
                return self._unexpected(read, value)
            return self._answer(read)
        if isinstance(read, Invalid):
            return self._refused(read.id, read.message)
        if isinstance(read, Ignored):
            return self._dropped("a notification with params that are not an object")
        try:
            return [self._types.jsonrpc_message_adapter.validate_python(value, by_name=False)]
        except ValueError:
            return self._refused(value.get("id"), "it is not a message of MCP")

    def _recovered(self, error: Exception) -> list[Any]:
        """Parse the messages that a transport failed to parse. The error contains them."""
        envelope = import_module("mcp.shared.message").SessionMessage
        if not isinstance(error, ValidationError):
            return [error]
        [first, *_] = error.errors(include_url=False, include_context=False)
        seen: Any = first["input"]
        if isinstance(seen, str):
            seen = seen.encode(errors="surrogatepass")
        messages = self.read(seen) if isinstance(seen, bytes) else self._messages(seen)
        return [envelope(message) for message in messages]

    def _unread(self, head: bytes, tail: bytes, problem: str) -> list[Any]:
        """Return the replacement for an unreadable line. The id of its request is at its beginning, or at its end."""
        read = classify_head(head, problem)
        if isinstance(read, Invalid) and b'"method"' in head:
            return self._refused(read.id, problem)
        id = read.id
        if id is None and (last := _LAST_ID.search(tail)):
            id = codec.decode(last[1])
        if _key(id) in self._waiting:
            return self._answer(Response(id, malformed=problem))
        return self._fail_all(problem) if _BEGINNING.match(head) else self._dropped("a line that is not a message")

    def _unexpected(self, read: Response, value: dict[str, Any]) -> list[Any]:
        """Return the replacement for a response to no pending request."""
        if not (value.get("jsonrpc") == "2.0" or _MEMBERS.issuperset(value)):
            return self._dropped("a line that is not a message")
        if isinstance(id := _key(read.id), int) and 0 <= id <= self._last:
            logger.debug("a late or second response of the MCP server %r was dropped", self._server)
            return []
        return self._fail_all("it does not name its request")

    def _refused(self, id: Any, problem: str) -> list[Any]:
        """Return the replacement for an unreadable request. The server waits for a response. So the official package
        gets a request with an unknown method, which it refuses."""
        self._say(f"a message cannot be read: {problem}")
        if not isinstance(id, int | str):
            return []
        return [self._types.JSONRPCRequest(jsonrpc="2.0", id=id, method="unreadable")]

    def _dropped(self, what: str) -> list[Any]:
        self._say(f"{what} is dropped")
        return []

    def _fail_all(self, problem: str) -> list[Any]:
        """Fail all pending requests, because a response to an unknown request was unreadable."""
        self._say(f"a response cannot be read: {problem}")
        return [answer for id in [*self._waiting] for answer in self._answer(Response(id, malformed=problem))]

    # -- answers

    def _answer(self, read: Response) -> list[Any]:
        id = _key(read.id)
        method = self._waiting.pop(id, None)
        problem = read.malformed
        result: Any = read.result
        if problem is None and read.error is None:
            if isinstance(result, dict):
                fitting = self._fitting(method, cast("dict[str, Any]", result))
                return [self._types.JSONRPCResponse(jsonrpc="2.0", id=id, result=fitting)]
            problem = "its result is not an object"
        if problem is None:
            error: Any = read.error
            data = self._types.ErrorData(code=error["code"], message=error["message"], data=error.get("data"))
        else:
            self._say(f"a response cannot be read: {problem}")
            data = self._types.ErrorData(
                code=self._types.INTERNAL_ERROR, message=f"the response cannot be read: {problem}"
            )
        return [self._types.JSONRPCError(jsonrpc="2.0", id=id, error=data)]

    def _fitting(self, method: str | None, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result without the parts for which the official package would refuse all of it."""
        if method == "initialize" and result.get("protocolVersion") in self._versions.HANDSHAKE_PROTOCOL_VERSIONS:
            self._version = result["protocolVersion"]
        elif method == "server/discover":
            self._version = self._versions.LATEST_MODERN_VERSION
        repair = {"tools/list": self._repair_tools, "tools/call": self._repair_content}.get(method or "")
        if repair is None:
            return result
        if method == "tools/call" and result.get("content") is None and "inputRequests" not in result:
            result = {**result, "content": []}
        for _ in range(_ROUNDS):
            wrong = self._wrong(method or "", result)
            if not wrong:
                break
            result = self._repaired(result, wrong, repair)
        return result

    def _wrong(self, method: str, result: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the paths of validation errors. Each begins with a member of the result."""
        model = self._types.ListToolsResult if method == "tools/list" else self._types.CallToolResult
        found: list[tuple[Any, ...]] = []
        try:
            self._methods.validate_server_result(method, self._version, result)
            if result.get("resultType", "complete") == "complete":
                model.model_validate(result, by_name=False)
        except ValidationError as error:
            for each in error.errors(include_url=False, include_context=False, include_input=False):
                # The path may begin with the name of the type that the result was validated as.
                start = next((at for at, part in enumerate(each["loc"]) if part in result), len(each["loc"]))
                found.append(each["loc"][start:])
        except (ValueError, KeyError, RecursionError):
            pass  # the package reports the error
        return [path for path in found if path]

    def _repaired(
        self, result: dict[str, Any], wrong: list[tuple[Any, ...]], repair: Callable[[Any, set[Any]], Any]
    ) -> dict[str, Any]:
        parts: dict[str, dict[int, set[Any]]] = {}
        whole: set[str] = set()
        for path in wrong:
            if path[0] in ("tools", "content"):
                if len(path) > 1:
                    parts.setdefault(path[0], {}).setdefault(path[1], set()).add(path[2] if len(path) > 2 else None)
            else:
                whole.add(path[0])
        result = dict(result)
        for member, odd in parts.items():
            kept = [repair(each, odd[at]) if at in odd else each for at, each in enumerate(result[member])]
            result[member] = [each for each in kept if each is not None]
        for member in whole:
            self._say(f"{one_line(member, _NAME)!r} of a result is invalid")
            value = result.pop(member)
            if member == "isError" and value is not None:
                result[member] = True
        return result

    def _repair_tools(self, tool: Any, members: set[Any]) -> Any:
        """Return a tool without its invalid members; None if a required member is invalid."""
        named: dict[str, Any] = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        name = named.get("name")
        who = f"the tool {one_line(name, _NAME)!r}" if isinstance(name, str) and name else "a tool without a name"
        if not members <= named.keys() or members & {"name", "inputSchema"}:
            self._say(f"{who} is invalid; it is not offered")
            return None
        for member in members:
            self._say(f"{member} of {who} is invalid and ignored")
        return {member: value for member, value in named.items() if member not in members}

    def _repair_content(self, block: Any, _members: set[Any]) -> Any:
        """Return the text for the model that replaces an unreadable block."""
        kind = cast("dict[str, Any]", block).get("type") if isinstance(block, dict) else None
        what = f"a block of the type {one_line(kind, 40)!r}" if isinstance(kind, str) else "a block without a type"
        self._say(f"{what} of a result cannot be read")
        return {"type": "text", "text": f"[{what}, which cannot be read]"}

    def _say(self, problem: str) -> None:
        """Log a problem, the first time as a warning."""
        is_new = problem not in self._said and len(self._said) < _SAID
        if is_new:
            self._said.add(problem)
        logger.log(
            logging.WARNING if is_new else logging.DEBUG, "a response of the MCP server %r: %s", self._server, problem
        )


def _key(id: Any) -> Any:
    """Return an id for comparisons, because some servers answer with a number as a string."""
    if isinstance(id, str):
        return int(id) if re.fullmatch(r"-?[0-9]{1,18}", id, re.ASCII) else id
    return id if type(id) is int else None
