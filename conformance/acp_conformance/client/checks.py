"""Rules for every message of a client, which are checked in the background of all cases and judged at the end.

In addition to `acp_conformance.core.checker.Checker`, the check knows the features that the agent has announced, and
the client's open requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from acp_conformance.core.checker import Checker
from acp_conformance.core.result import Subject, clean
from acp_conformance.core.schema import announced, member_capabilities

from .dialect import Dialect

_GATED = {"prompt": ("content", "ContentBlock"), "mcpServers": ("mcp", "McpServer")}
"""By the name of a list in params: the rule about it, and the type whose members need capabilities."""
_MAY_BE_NULL = {"fs/write_text_file", "terminal/kill", "terminal/release"}
"""Their results are empty: an object in the schema, null on the page."""
_EXACT = 2**53 - 1
"""Integers beyond this may have been rounded, which a separate case reports."""
_OTHER_SPELLINGS = {"$/cancelRequest", "$/cancel", "notifications/cancelled"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One message that breaks a rule."""

    case: str
    """The case in which it was sent."""
    what: str
    line: str


@dataclass(slots=True)
class Seen:
    """All messages and findings of a client in a run."""

    agents: int = 0
    """How many agent processes it has started."""
    messages: int = 0
    subject: Subject | None = None
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    """By rule."""

    def against(self, rules: Collection[str]) -> str:
        """Return the findings against these rules as a sentence; empty if there are no findings."""
        found = [finding for rule in rules for finding in self.findings.get(rule, ())]
        if not found:
            return ""
        places = sorted({finding.case for finding in found})
        more = f" and {len(places) - 1} more cases" if len(places) > 1 else ""
        return f"{found[0].what} (in {places[0]}{more}; {len(found)} in all): {found[0].line[:200]}"

    def wrong_in(self, case: str, rules: Collection[str]) -> tuple[str, Finding] | None:
        """Return the first finding of a case against one of these rules, with the rule."""
        found = ((rule, each) for rule in rules for each in self.findings.get(rule, ()) if each.case == case)
        return next(found, None)


class Watch:
    """Checks the messages of one conversation, in order."""

    def __init__(self, seen: Seen, case: str, dialect: Dialect) -> None:
        self._dialect = dialect
        self._seen = seen
        self._case = case
        self._checker = Checker("client", dialect.version)
        self._asked: dict[tuple[type, Any], str] = {}
        self._open: dict[tuple[type, Any], str] = {}
        self._batched = False
        """A batch was sent: its responses may come as one."""
        seen.agents += 1

    def sent(self, message: Any) -> None:
        """Record what was sent to the client: a message, or None for anything else."""
        self._checker.sent(message)
        if isinstance(message, list):
            # A client that accepts no batches may refuse it as a whole, with an error that has no id.
            self._batched = self._checker.adverse = True
        for each in message if isinstance(message, list) else [message]:
            if not isinstance(each, dict) or "id" not in each:
                continue
            if not isinstance(id := each["id"], int | float | str | None):
                continue  # the response to a request whose id is of no such type
            key = (type(id), id)
            if "method" in each:
                self._asked[key] = str(each["method"])
            elif self._open.pop(key, None) == "initialize" and isinstance(each.get("result"), dict):
                self._checker.agent_capabilities = each["result"].get(self._dialect.agent_capabilities) or {}
                self._checker.agreed(each["result"].get("protocolVersion"))

    def received(self, line: bytes) -> Any:
        """Return the message of a line, or None, and record its faults."""
        self._seen.messages += 1
        message, violations = self._checker.check(line)
        shown = line[:500].decode("utf-8", "backslashreplace")
        found = [(str(each.rule), each.what) for each in violations]
        answers = self._batched and self._dialect.version == 1
        if isinstance(message, list) and not (answers and not any("method" in each for each in message)):
            found.append(("batch", f"{len(message)} messages in one line"))
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict):
                found = [one for one in found if not self._excused(one[0], each)]
                found += self._own(each)
        for rule, what in found:
            self._seen.findings.setdefault(self._dialect.rule(rule), []).append(Finding(self._case, what, shown))
        return message

    def _excused(self, rule: str, message: dict[str, Any]) -> bool:
        id = message.get("id")
        try:
            key = (type(id), id)
            if rule == "reused-id":
                return key not in self._open
            if rule == "unasked-answer" and isinstance(id, int):
                return abs(id) > _EXACT
            return rule == "result" and message.get("result") is None and self._asked.get(key) in _MAY_BE_NULL
        except TypeError:  # an id that is a list or an object
            return False

    def _own(self, message: dict[str, Any]) -> Iterator[tuple[str, str]]:
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            return
        id = message.get("id")
        if "id" in message and isinstance(id, int | str | None):
            self._open[type(id), id] = method
        if method in _OTHER_SPELLINGS:
            yield "cancel-spelling", f"{method} is not the name of a method; $/cancel_request is"
        if not isinstance(params, dict):
            return
        if method == "initialize" and self._seen.subject is None:
            self._seen.subject = _subject(params, self._dialect)
        for key, (rule, union) in _GATED.items():
            table = member_capabilities(self._dialect.version)[union]
            for each in params[key] if isinstance(params.get(key), list) else ():
                kind = each.get("type") if isinstance(each, dict) else None
                capability = table.get(kind, "").partition(".")[2] if isinstance(kind, str) else ""
                if capability and not announced(self._checker.agent_capabilities, capability):
                    yield rule, f"{method} has {key} of type {kind} although {capability} is not announced"
        wanted = f"{self._dialect.session_capabilities}.additionalDirectories"
        if params.get("additionalDirectories") and not announced(self._checker.agent_capabilities, wanted):
            yield "directories", f"{method} has additionalDirectories although {wanted} is not announced"


def _subject(params: Any, dialect: Dialect) -> Subject | None:
    if not isinstance(params, dict):
        return None
    info = params.get(dialect.info)
    name, version = (info.get("name"), info.get("version")) if isinstance(info, dict) else (None, None)
    spoken = params.get("protocolVersion")
    return {
        "name": clean(name) if isinstance(name, str) else None,
        "version": clean(version) if isinstance(version, str) else None,
        "protocolVersion": spoken if isinstance(spoken, int) and not isinstance(spoken, bool) else None,
    }
