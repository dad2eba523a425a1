"""Translates updates of version 2 to version 1, which programs use, and values that the versions encode differently.

Content that version 1 cannot express is passed on as received: as an update of an unknown kind, or as an extra member.
This concerns states, terminals, plans that are not a list of steps, and messages whose text is replaced. The input was
validated as version 2 and is in wire form.

For each message a digest of its content is kept, and for each tool call its output. Both are bounded.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from hashlib import blake2b
from typing import Any, Final, TypeVar

from acp_server.schema import v2
from acp_server.wire import codec

Wire = dict[str, Any]

MESSAGES: Final = 1000
"""The number of messages whose content is remembered. A forgotten message counts as new."""
CALLS: Final = 200
"""The number of tool calls that are remembered. A forgotten tool call counts as new."""
ID: Final = 64
"""The number of characters of an id that are kept."""
PIECES: Final = 100
"""The most chunks of output that are collected for one tool call. Further chunks are passed on as received."""
PIECE_BYTES: Final = 64 * 1024
"""The most bytes of JSON of one tool call's collected chunks."""

V = TypeVar("V")


class Translator:
    """Translates the updates of one session. Its input and output are parsed JSON."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], _Said] = OrderedDict()
        self._calls: OrderedDict[str, _Output] = OrderedDict()
        self._cost: Any = None

    def __call__(self, update: Wire) -> list[Wire]:
        """Return the version 1 updates with the same content, in order."""
        match update["sessionUpdate"]:
            case "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" as tag:
                self._message(tag, update["messageId"]).add(update["content"])
                return [update]
            case "user_message" | "agent_message" | "agent_thought" as tag:
                return self._whole(f"{tag}_chunk", update)
            case "tool_call_update":
                return [self._tool_call(update)]
            case "tool_call_content_chunk":
                return self._tool_chunk(update)
            case "plan_update" if update["plan"]["type"] == "items":
                return [{**update["plan"], "sessionUpdate": "plan"}]
            case "config_option_update":
                return self._options({**update, "configOptions": config_options(update["configOptions"])})
            case "usage_update":
                self._cost = update.get("cost", self._cost)
                return [{**update, "cost": self._cost}]
            case _:
                return [update]

    def _options(self, update: Wire) -> list[Wire]:
        if (told := modes(update["configOptions"])) is None:
            return [update]
        return [update, {"sessionUpdate": "current_mode_update", "currentModeId": told["currentModeId"]}]

    def _message(self, tag: str, id: str) -> _Said:
        return _kept(self._said, (tag, short(id)), MESSAGES, _Said)

    def _whole(self, tag: str, update: Wire) -> list[Wire]:
        said = self._message(tag, update["messageId"])
        rest = None if "content" not in update else said.rest(update["content"] or [])
        if rest is None:
            said.restart(update)
            return [update]
        for block in rest:
            said.add(block)
        more = {key: update[key] for key in ("messageId", "_meta") if update.get(key) is not None}
        return [{**more, "sessionUpdate": tag, "content": block} for block in rest]

    def _tool_call(self, update: Wire) -> Wire:
        id = update["toolCallId"]
        is_new = short(id) not in self._calls
        output = _kept(self._calls, short(id), CALLS, _Output)
        plain = tool_call(update)
        if "content" in plain:
            output.restart(plain["content"])
        if not is_new:
            return plain
        title = plain.get("title") or plain.get("name") or id
        return {**plain, "sessionUpdate": "tool_call", "title": title}

    def _tool_chunk(self, chunk: Wire) -> list[Wire]:
        id = chunk["toolCallId"]
        begun = [] if short(id) in self._calls else [self._tool_call({"toolCallId": id})]
        content = _kept(self._calls, short(id), CALLS, _Output).add(tool_content(chunk["content"]))
        if content is None:
            return [*begun, chunk]
        return [*begun, {"sessionUpdate": "tool_call_update", "toolCallId": id, "content": content}]


def short(id: str) -> str:
    """Return the key for an id: the id itself, or its digest if it is long."""
    if len(id) <= ID:
        return id
    return blake2b(id.encode(errors="surrogatepass"), digest_size=ID // 2).hexdigest()


def _kept(known: OrderedDict[Any, V], key: Any, bound: int, make: type[V]) -> V:
    """Return the value for `key`, which becomes the most recent value. Above `bound`, the oldest value is dropped."""
    value = known.pop(key, None)
    if value is None:
        value = make()
        if len(known) >= bound:
            known.popitem(last=False)
    known[key] = value
    return value


class _Said:
    """The content of one message so far, as a digest of its text and of the JSON of other blocks."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)
        self._length = 0

    def add(self, block: Wire) -> None:
        data = _bytes(block)
        self._digest.update(data)
        self._length += len(data)

    def restart(self, update: Wire) -> None:
        """Replace the message by the content of the update, if the update has content."""
        if "content" in update:
            self.__init__()
            blocks: list[Wire] = update["content"] or []
            for block in blocks:
                self.add(block)

    def rest(self, blocks: list[Wire]) -> list[Wire] | None:
        """Return the part of `blocks` that follows the content so far; None if `blocks` do not begin with that
        content."""
        before, said = self._length, blake2b(digest_size=16)
        rest = list[Wire]()
        for block in blocks:
            data = _bytes(block)
            said.update(data[:before])
            if before < len(data):
                if before > 0 and block["type"] != "text":
                    return None
                rest.append({**block, "text": data[before:].decode(errors="surrogatepass")} if before else block)
            before = max(0, before - len(data))
        return rest if not before and said.digest() == self._digest.digest() else None


def _bytes(block: Wire) -> bytes:
    text = block.get("text")
    if block["type"] == "text" and isinstance(text, str):
        return text.encode(errors="surrogatepass")
    return b"\0" + codec.encode(block) + b"\0"


class _Output:
    """Collects the output of one tool call."""

    def __init__(self) -> None:
        self._pieces: list[Wire] | None = []
        """The collected chunks; None if no more output is collected."""
        self._size = 0

    def restart(self, pieces: list[Wire]) -> None:
        """Replace the collected output, because the agent has sent all of it."""
        self._pieces, self._size = [], 0
        for piece in pieces:
            self.add(piece)

    def add(self, piece: Wire) -> list[Wire] | None:
        """Return the whole output with `piece` at its end; None if output is not collected."""
        if self._pieces is None:
            return None
        self._size += len(codec.encode(piece))
        if len(self._pieces) >= PIECES or self._size > PIECE_BYTES:
            self._pieces = None
            return None
        self._pieces.append(piece)
        return list(self._pieces)


MODE: Final = "mode"
"""The category of the config option that holds the modes of a session."""

STATUSES: Final = {"paused": "in_progress", "cancelled": "failed"}
"""The statuses of a tool call that version 1 does not have, with their replacements."""

_CLEARED: Final[Wire] = {"kind": "other", "status": "pending", "title": "", "content": [], "locations": []}
"""The version 1 values for cleared members of a tool call."""


def config_options(options: list[Wire]) -> list[Wire]:
    """Convert config options to the form of version 1."""
    return [_config_option(option) for option in options]


def _config_option(option: Wire) -> Wire:
    if option["type"] == "select":
        values: list[Wire] = option["options"]
        groups = [{**value, "group": value["groupId"]} if "groupId" in value else value for value in values]
        return {**option, "id": option["configId"], "options": groups}
    return {**option, "id": option["configId"]}


def modes(options: list[Wire]) -> Wire | None:
    """Return the version 1 modes from the config option for modes; None if there is no such option."""
    for option in options:
        if option["type"] == "select" and option.get("category") == MODE:
            groups = [each.get("options", [each]) for each in option["options"]]
            choices = [{**value, "id": value["value"]} for group in groups for value in group]
            return {"currentModeId": option["currentValue"], "availableModes": choices}
    return None


def tool_content(item: Wire) -> Wire:
    """Convert one item of a tool call's output. A diff becomes text, because a version 1 diff has the whole text of one
    file, and a version 2 diff is a patch of many files."""
    if item["type"] != "diff":
        return item
    return {"type": "content", "content": {"type": "text", "text": _shown(v2.Diff.from_wire(item))}, "diff": item}


def _shown(diff: v2.Diff) -> str:
    if diff.patch is not None:
        # Longer than any fence in the patch.
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", diff.patch.text)), default=0))
        return f"{fence}diff\n{diff.patch.text.rstrip()}\n{fence}"
    changes = [change.to_wire() for change in diff.changes]
    return "\n".join(f"{change['operation']} {change.get('path', '')}".rstrip() for change in changes)


def tool_call(call: Wire) -> Wire:
    """Return the set members of a tool call in the form of version 1. A cleared member gets its default."""
    plain = {key: value for key, value in call.items() if value is not None}
    plain |= {key: default for key, default in _CLEARED.items() if key in call and call[key] is None}
    if "content" in plain:
        plain["content"] = [tool_content(item) for item in plain["content"]]
    if (status := plain.get("status")) in STATUSES:
        plain |= {"status": STATUSES[status], "_meta": {**plain.get("_meta", {}), "acp_server.status": status}}
    return plain


def permission(question: v2.RequestPermissionRequest, name: str) -> Wire:
    """Return the parameters of a permission request. If it has no tool call, a tool call with the id `name` is
    added."""
    subject, wire = question.subject, question.to_wire()
    call: Wire = {"toolCallId": name, "title": question.title}
    if isinstance(subject, v2.ToolCallPermissionSubject):
        told = tool_call(subject.tool_call.to_wire())
        call = {**told, "title": told.get("title") or question.title}
    elif isinstance(subject, v2.CommandPermissionSubject):
        command = {"command": subject.command, "cwd": subject.cwd}
        call |= {"toolCallId": subject.tool_call_id or name, "kind": "execute", "rawInput": command}
        call["content"] = [_text(f"{subject.command}\n(in {subject.cwd})")]
    if question.description and not call.get("content"):
        call["content"] = [_text(question.description)]
    return {**wire, "toolCall": call}


def _text(text: str) -> Wire:
    return {"type": "content", "content": {"type": "text", "text": text}}
