"""Checks every message of a subject against the JSON-RPC envelope and the published schema of the protocol.

`Checker.check` gets each line in order and returns the faults of the line. Each fault is a `Violation` of one `Rule`.
The cases of the whole run turn faults into verdicts. A checker remembers the open and the answered requests, because
the check of the envelope needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeGuard

from .meaning import Meaning
from .meaning_v2 import MeaningV2
from .members import published, unknown_members, unknown_values
from .pages import params_of_schema, result_of_schema
from .schema import (
    JsonId,
    NotJson,
    announced,
    errors_of,
    member_capabilities,
    methods,
    parse,
    same_id,
)
from .violation import Violation

_CAPABILITIES = {1: "agentCapabilities", 2: "capabilities"}
"""The member of the result of `initialize` with the agent's capabilities, by version."""

_UPDATES = 500
"""The most updates of one conversation that are checked against the schema. More updates would prove nothing new."""


class Checker:
    """Checks one conversation. `subject` is the side that is checked, `version` the protocol version of the suite."""

    def __init__(self, subject: Literal["agent", "client"], version: int = 1) -> None:
        self.subject = subject
        self.version = version
        self.client_capabilities: Mapping[str, Any] = {}
        """The capabilities of the client of this conversation; set it before the first message is checked."""
        self.agent_capabilities: Mapping[str, Any] = {}
        self.adverse = False
        """Whether the suite has sent something that is not a message. After that, errors without an id are its
        answers."""
        self.spoken = 0
        """The version that both sides agreed on. The shapes of messages of another version are not judged."""
        self._updates = 0
        self._asked: list[tuple[JsonId, str]] = []
        self._answered: list[JsonId] = []
        self._expected: list[object] = []
        self._own: set[tuple[str, str]] = set()
        self._batched = False
        self._meanings: Mapping[int, Meaning | MeaningV2] = {1: Meaning(), 2: MeaningV2()}

    def sent(self, message: object) -> None:
        """Record a message that is sent to the subject."""
        entries: list[Any] = message if isinstance(message, list) else [message]
        self._batched |= isinstance(message, list)
        self.adverse |= isinstance(message, list)  # it may be refused as a whole
        for each in entries:
            if not isinstance(each, dict):
                self.adverse = True
                continue
            id = each.get("id")
            if "method" not in each and ("result" in each) != ("error" in each):
                self._own.discard(_key(id))
                continue
            proper = each.get("jsonrpc") == "2.0" and isinstance(each.get("method"), str) and _valid_id(id)
            proper = proper and isinstance(each.get("params"), dict | list | None)
            self.adverse |= not proper or ("id" in each and any(same_id(id, open_id) for open_id, _ in self._asked))
            if proper:
                self._meaning.asked(each["method"], each.get("params"))
            if "id" in each and _valid_id(id):
                self._asked.append((id, each["method"] if proper else ""))
            elif "id" in each:
                self._expected.append(id)

    @property
    def _meaning(self) -> Meaning | MeaningV2:
        return self._meanings[self.version]

    @property
    def awaited(self) -> list[str]:
        """Return the methods of the requests to the subject that have no response yet."""
        return [method for _, method in self._asked]

    def leftovers(self) -> list[Violation]:
        """Return the faults that show only at the end of the conversation."""
        return self._meaning.sessions.found(self.awaited.count("session/new")) if self.subject == "agent" else []

    def agreed(self, version: Any) -> None:
        """Record the version in a result of `initialize`."""
        self.spoken = version if _integer(version) else 0

    def expect(self, id: JsonId) -> None:
        """Record an id that a response may have although no well-formed request had this id."""
        self._expected.append(id)

    def check(self, line: bytes) -> tuple[Any, list[Violation]]:
        """Return the message of a line, or None, and its faults."""
        shown = line[:500].decode("utf-8", "backslashreplace")
        try:
            message = parse(line)
        except UnicodeDecodeError as error:
            return None, [Violation("utf-8", f"not UTF-8 at byte {error.start}", shown)]
        except NotJson as error:
            return None, [Violation("json", str(error), shown)]
        if isinstance(message, list) and message:
            if not self._batched:
                return message, [Violation("batch", "an array, although no request was in one", shown)]
            found = [violation for each in message for violation in self._message(each, shown)]
        else:
            found = list(self._message(message, shown))
        return message, found

    def _message(self, message: Any, line: str) -> Iterator[Violation]:
        if not isinstance(message, dict):
            yield Violation("message", f"a JSON-RPC message is an object, this is {_kind(message)}", line)
            return
        if message.get("jsonrpc") != "2.0":
            yield Violation("version", f"jsonrpc must be exactly '2.0', it is {message.get('jsonrpc')!r}", line)
        id = message.get("id")
        if "id" in message and not _valid_id(id) and not self._is_echo(id):
            yield Violation("id-type", f"an id is a string, an integer or null, this is {id!r}", line)
        if "method" in message:
            if "result" in message or "error" in message:
                yield Violation("kind", "both a method and a result or error", line)
            yield from self._call(message, line)
        elif "id" in message and ("result" in message or "error" in message):
            if "result" in message and "error" in message:
                yield Violation("kind", "both a result and an error", line)
            yield from self._answer(message, line)
        else:
            yield Violation(
                "kind", "neither a request nor a notification, nor a response (id and result, or id and error)", line
            )

    def _call(self, message: dict[str, Any], line: str) -> Iterator[Violation]:
        method: Any = message["method"]
        params: Any = message.get("params")
        if not isinstance(method, str):
            yield Violation("kind", f"a method is a string, this is {_kind(method)}", line)
            return
        if params is not None and not isinstance(params, dict | list):
            yield Violation("params-structured", f"params are an object or an array, these are {_kind(params)}", line)
            return
        if "id" in message:
            if message["id"] is None:
                yield Violation("null-id", f"the id of the request {method!r:.100} is null", line)
            key = _key(message["id"])
            if key in self._own:
                yield Violation("reused-id", f"id {message['id']!r} is that of an earlier request, still open", line)
            self._own.add(key)
        if method == "initialize" and _names_a_version(params) and _version_of(params) < self.version:
            self.spoken = _version_of(params)  # a client that requests an earlier version speaks that one
        if self.spoken not in (0, self.version):
            return
        known = methods(self.version).get(method)
        if known is None:
            if not method.startswith(("_", "$/")) and method not in published(self.version).methods:
                yield Violation("method-name", f"{method!r} is not of the protocol and does not begin with '_'", line)
            return
        if known["receiver"] == self.subject or (known["kind"] == "request") != ("id" in message):
            yield Violation("direction", f"{method} is a {known['kind']} to the {known['receiver']}", line)
            return
        capability = known["capability"]
        if capability is not None and not self._has(capability):
            yield Violation("capability", f"{method} although {capability} is not announced", line)
        if method == "session/update":
            self._updates += 1
            if _kind_of(params) in published(self.version).updates:
                self._meaning.sessions.announced(params)
                return
            if self._updates > _UPDATES:
                return
        params = {} if params is None else params
        if self.version == 1:
            params = params_of_schema(method, params)
        if wrong := errors_of(known["params"], params, self.version):
            yield Violation("update" if method == "session/update" else "request", f"{method} params, {wrong}", line)
            return
        if method == "initialize" and (self.version != 1 or _version_of(params) > self.version):
            return  # a client that speaks several versions announces the capabilities of each
        yield from self._extra(known["params"], params, f"{method} params", line)
        if method == "session/update":
            yield from self._update(params["update"], line)
        if method == "elicitation/create":
            yield from self._mode(params.get("mode"), line)
        if self.subject == "agent":
            yield from self._meaning.call(method, params, line)

    def _extra(self, name: str, value: Mapping[str, Any], what: str, line: str) -> Iterator[Violation]:
        unknown = f"which the protocol has not as of {published(self.version)}"
        if extra := unknown_members(name, value, self.version):
            yield Violation("extra-member", f"{what} have {', '.join(extra):.200}, {unknown}", line)
        if self.version != 1 and (names := unknown_values(name, value, self.version)):
            yield Violation("custom-name", f"{what} have {', '.join(names):.200}, {unknown}", line)

    def _logins(self, result: Mapping[str, Any], line: str) -> Iterator[Violation]:
        needed = member_capabilities(self.version).get("AuthMethod", {})
        for each in result.get("authMethods") or ():
            capability = needed.get(str(each.get("type")))
            if self.version != 1 and capability is not None and not self._has(capability):
                what = f"a login of the type {each['type']} although {capability} is not announced"
                yield Violation("capability", what, line)

    def _update(self, update: dict[str, Any], line: str) -> Iterator[Violation]:
        kind = update["sessionUpdate"]
        capability = member_capabilities(self.version).get("SessionUpdate", {}).get(kind)
        if capability is not None and not self._has(capability):
            yield Violation("capability", f"the update {kind} although {capability} is not announced", line)

    def _mode(self, mode: object, line: str) -> Iterator[Violation]:
        capability = member_capabilities(self.version).get("CreateElicitationRequest", {}).get(str(mode))
        if capability is not None and self._has("clientCapabilities.elicitation") and not self._has(capability):
            yield Violation("capability", f"the mode {mode} although {capability} is not announced", line)

    def _answer(self, message: dict[str, Any], line: str) -> Iterator[Violation]:
        id, error = message["id"], message.get("error")
        result: Any = message.get("result")
        if "error" in message and not (error is None and "result" in message):  # as in JSON-RPC 1.0: one fault
            code = error.get("code") if isinstance(error, dict) else None
            if not isinstance(error, dict) or not _integer(code) or not isinstance(error.get("message"), str):
                yield Violation(
                    "error-object", f"an error has an integer code and a message, this is {error!r:.200}", line
                )
        asked = next((each for each in self._asked if same_id(each[0], id)), None)
        if asked is None:
            if (id is None and "error" in message and self.adverse) or self._is_echo(id):
                return
            if any(same_id(each, id) for each in self._answered):
                yield Violation("answered-twice", f"a further answer to the request {id!r}", line)
            else:
                yield Violation("unasked-answer", f"an answer to {id!r}, which no open request has", line)
            return
        self._asked.remove(asked)
        self._answered.append(id)
        known = methods(self.version).get(asked[1])
        if known is None or known["result"] is None or "result" not in message:
            return
        if self.version == 1:
            result = result_of_schema(asked[1], result)
        if asked[1] == "initialize" and isinstance(result, dict):
            self.agreed(result.get("protocolVersion"))
            self.agent_capabilities = result.get(_CAPABILITIES[self.version]) or {}
        if self.spoken not in (0, self.version):
            return
        capability = known["capability"]
        if self.subject == "agent" and capability is not None and not self._has(capability):
            return  # the rules are about the announcement; the suite requested more
        if wrong := errors_of(known["result"], result, self.version):
            yield Violation("result", f"result of {asked[1]}, {wrong}", line)
            return
        assert isinstance(result, dict)  # as the schema has it for every method
        yield from self._extra(known["result"], result, f"result of {asked[1]}", line)
        if asked[1] == "initialize":
            yield from self._logins(result, line)
        if self.subject == "agent":
            yield from self._meaning.result(asked[1], result, line)

    def _is_echo(self, id: object) -> bool:
        """Whether a response may have this id although no well-formed request had this id. A separate case judges such
        a response."""
        return any(same_id(each, id) for each in self._expected)

    def _has(self, capability: str) -> bool:
        side, _, path = capability.partition(".")
        return announced(self.client_capabilities if side == "clientCapabilities" else self.agent_capabilities, path)


def _key(id: object) -> tuple[str, str]:
    return type(id).__name__, repr(id)


def _valid_id(id: object) -> bool:
    return isinstance(id, int | str | None) and not isinstance(id, bool)


def _integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: object) -> str:
    names = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null")


def _names_a_version(params: Any) -> bool:
    return isinstance(params, dict) and _integer(params.get("protocolVersion"))


def _version_of(params: Any) -> int:
    """Return the version that `initialize` requests; 1 if the requested version is not a number."""
    version = params.get("protocolVersion") if isinstance(params, dict) else None
    return version if _integer(version) and version > 0 else 1


def _kind_of(params: Any) -> object:
    """Return the kind of an update."""
    update = params.get("update") if isinstance(params, dict) else None
    return update.get("sessionUpdate") if isinstance(update, dict) else None
