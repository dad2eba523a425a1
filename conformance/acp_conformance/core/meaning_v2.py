"""Finds faults of an agent's messages on version 2 that the schema cannot express.

It gets only messages with the shape of their method.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from .background import Background
from .meaning import Strangers, absolute
from .patches import faults_of
from .violation import Rule, Violation

_PATHS = ("path", "oldPath")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*=*\s*")
_OF_SESSIONS = ("session/prompt", "session/resume")


class _Session:
    """What one session has reported."""

    def __init__(self) -> None:
        self.background = Background()
        self.terminals: dict[str, str] = {}
        """What each terminal has reported: `exited`, then `again` for a command, then `running` for its work."""


class MeaningV2:
    """Checks the meaning of one conversation with an agent of version 2."""

    def __init__(self) -> None:
        self.sessions = Strangers()
        self._known: dict[str, _Session] = {}

    def asked(self, method: str, params: Any) -> None:
        """Record a request to the agent. Its session may be an earlier session."""
        if method not in _OF_SESSIONS or not isinstance(params, dict):
            return
        id = str(params.get("sessionId"))
        self.sessions.created(id)
        if method == "session/resume":
            session = self._of(id)
            session.background.resumed()
            session.terminals.clear()

    def result(self, method: str, result: Any, line: str) -> Iterator[Violation]:
        """Check a result of the agent."""
        if method == "session/new":
            self.sessions.created(result["sessionId"])
        elif method == "session/list":
            for session in result["sessions"]:
                yield from absolute(session["cwd"], "the working directory of a session", line)
                for folder in session.get("additionalDirectories") or ():
                    yield from absolute(folder, "an additional directory of a session", line)
                yield from _date(session.get("updatedAt"), line)
        yield from _setup(result, line)

    def call(self, method: str, params: Mapping[str, Any], line: str) -> Iterator[Violation]:
        """Check a request or notification of the agent."""
        self.sessions.named(params.get("sessionId"), method, line)
        if method == "session/request_permission":
            yield from self._subject(params.get("subject") or {}, line)
        elif method == "session/update":
            yield from self._update(self._of(params["sessionId"]), params["update"], line)

    def _of(self, session: str) -> _Session:
        return self._known.setdefault(session, _Session())

    def _subject(self, subject: Mapping[str, Any], line: str) -> Iterator[Violation]:
        if subject.get("type") == "command":
            yield from absolute(subject["cwd"], "the working directory of a command", line)
        elif subject.get("type") == "tool_call":
            yield from _tool(subject["toolCall"], line)

    def _update(self, session: _Session, update: Mapping[str, Any], line: str) -> Iterator[Violation]:
        yield from _encoded(update, line)
        yield from _all("background", session.background.update(update), line)
        match update["sessionUpdate"]:
            case "tool_call_update":
                yield from _tool(update, line)
            case "tool_call_content_chunk":
                yield from _content(update["content"], line)
            case "terminal_update":
                yield from absolute(update.get("cwd"), "the working directory of a terminal", line)
                yield from _terminal(session.terminals, update, line)
            case "terminal_output_chunk":
                if session.terminals.get(id := update["terminalId"]) == "again":
                    session.terminals[id] = "running"
            case "session_info_update":
                yield from _date(update.get("updatedAt"), line)
            case "state_update":
                if update["state"] == "idle":
                    yield from _all("offer", session.background.offers(), line)
            case _:
                yield from _setup(update, line)


def _terminal(terminals: dict[str, str], update: Mapping[str, Any], line: str) -> Iterator[Violation]:
    """A terminal that exits, then gets a command and output, and exits once more, has become another one.

    A report of an exited terminal may be repeated, with its command and its exit.
    """
    id = update["terminalId"]
    state = terminals.get(id, "")
    if update.get("exitStatus") is not None:
        if state == "running":
            yield Violation("terminal-reused", f"the terminal {id!r:.100} exits a second time", line)
        terminals[id] = "exited"
    elif state in ("exited", "again") and update.get("command") is not None:
        can_stop = (update.get("capabilities") or {}).get("cancel") is not None
        terminals[id] = "running" if can_stop else "again"


def _all(rule: Rule, faults: Iterator[str], line: str) -> Iterator[Violation]:
    for fault in faults:
        yield Violation(rule, fault, line)


def _encoded(update: Mapping[str, Any], line: str) -> Iterator[Violation]:
    """The base64 of an update: of terminals, and of blocks in messages and tool calls."""
    found: list[object] = []
    if update["sessionUpdate"] in ("terminal_update", "terminal_output_chunk"):
        found += [update.get("data"), (update.get("output") or {}).get("data")]
    content = update.get("content")
    blocks = [each for each in (content if isinstance(content, list) else [content]) if isinstance(each, dict)]
    blocks += [each["content"] for each in blocks if each.get("type") == "content"]
    found += [each.get("data") for each in blocks if each.get("type") in ("image", "audio")]
    found += [each["resource"].get("blob") for each in blocks if each.get("type") == "resource"]
    for data in found:
        if isinstance(data, str) and not _BASE64.fullmatch(data):
            yield Violation("base64", f"the data are {data!r:.100}", line)


def _tool(tool: Mapping[str, Any], line: str) -> Iterator[Violation]:
    for location in tool.get("locations") or ():
        yield from absolute(location["path"], "the location of a tool call", line)
    for content in tool.get("content") or ():
        yield from _content(content, line)


def _content(content: Mapping[str, Any], line: str) -> Iterator[Violation]:
    if content["type"] != "diff":
        return
    paths = [change[name] for change in content["changes"] for name in _PATHS if isinstance(change.get(name), str)]
    for path in paths:
        yield from absolute(path, "the path of a change", line)
    patch = content.get("patch")
    if patch and patch["format"] == "git_patch":
        yield from _all("patch", faults_of(patch["text"], paths), line)


def _setup(value: Mapping[str, Any], line: str) -> Iterator[Violation]:
    """The config options and the commands of a result or an update."""
    for option in value.get("configOptions") or ():
        if option["type"] == "select":
            yield from _all("config-option", _select(option), line)
    yield from _all("command", _commands(value.get("availableCommands") or ()), line)


def _select(option: Mapping[str, Any]) -> Iterator[str]:
    entries = [each.get("options", [each]) for each in option["options"]]
    values = Counter(value["value"] for group in entries for value in group)
    if option["currentValue"] not in values:
        yield f"{option['configId']!r:.100} has the value {option['currentValue']!r:.100}, which it does not offer"
    if twice := [value for value, count in values.items() if count > 1]:
        yield f"{option['configId']!r:.100} has the value {twice[0]!r:.100} more than once"


def _commands(commands: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = Counter(str(each.get("name")) for each in commands)
    for name, count in names.items():
        if count > 1:
            yield f"{count} commands have the name {name!r:.100}"
        if re.search(r"\s", name):
            yield f"the name of the command {name!r:.100} has whitespace"


def _date(date: object, line: str) -> Iterator[Violation]:
    """A date and time of RFC 3339."""
    if not isinstance(date, str):
        return
    try:
        valid = len(date) > 10 and date[10] in "Tt " and datetime.fromisoformat(date).tzinfo is not None
    except ValueError:
        # A leap second is a time of RFC 3339.
        valid = re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:60(\.\d+)?([Zz]|[+-]\d\d:\d\d)", date) is not None
    if not valid:
        yield Violation("date", f"updatedAt is {date!r:.100}", line)
