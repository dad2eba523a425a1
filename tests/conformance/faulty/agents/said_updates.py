"""Faults of single updates: what the specification's pages on turns, tools, plans and content rule out."""

from __future__ import annotations

from outgoing import Outgoing
from rpc import Json


class DoneStep(Outgoing):
    """Calls a step of a plan done."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "plan":
            update["entries"][0]["status"] = "done"


class NumberedPriority(Outgoing):
    """Numbers the priorities of a plan."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "plan":
            update["entries"][0]["priority"] = 1


class PlanOfWords(Outgoing):
    """Sends the steps of a plan as text."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "plan":
            update["entries"] = [each["content"] for each in update["entries"]]


class StepsUnderAnotherName(Outgoing):
    """Calls the steps of a plan steps."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "plan":
            update["steps"] = update.pop("entries")


class ShellKind(Outgoing):
    """Has a kind of tool of its own."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call":
            update["kind"] = "shell"


class RunningStatus(Outgoing):
    """Calls a tool call running."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if update.get("status") == "in_progress" and kind != "plan":
            update["status"] = "running"


class DoneStatus(Outgoing):
    """Calls a tool call done."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if update.get("status") == "completed" and kind != "plan":
            update["status"] = "done"


class NamelessUpdate(Outgoing):
    """Updates a tool call without its id."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call_update":
            del update["toolCallId"]


class NumberedCalls(Outgoing):
    """Numbers its tool calls."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if "toolCallId" in update:
            update["toolCallId"] = int(update["toolCallId"].removeprefix("call_"))


class LineZeroLocation(Outgoing):
    """Counts the lines of locations from 0."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call":
            update["locations"] = [{"path": "/tmp/a.txt", "line": 0}]


class NegativeLocation(Outgoing):
    """Points to a line before the first."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call":
            update["locations"] = [{"path": "/tmp/a.txt", "line": -1}]


class RelativeLocation(Outgoing):
    """Names files as they are seen from the folder."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call":
            update["locations"] = [{"path": "src/a.txt"}]


class HomeLocation(Outgoing):
    """Names files below a tilde."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call":
            update["locations"] = [{"path": "~/a.txt"}]


class LocationsAsText(Outgoing):
    """Names locations by their paths alone."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call":
            update["locations"] = ["/tmp/a.txt"]


class RelativeDiff(Outgoing):
    """Shows a change of a file without its folder."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call_update":
            update["content"] = [{"type": "diff", "path": "a.txt", "oldText": None, "newText": "x"}]


class HalfADiff(Outgoing):
    """Shows a change without the new text."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call_update":
            update["content"] = [{"type": "diff", "path": "/a.txt", "oldText": "x"}]


class PatchForADiff(Outgoing):
    """Shows a change as a patch."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call_update":
            update["content"] = [{"type": "diff", "path": "/a.txt", "patch": "+x"}]


class BareContent(Outgoing):
    """Puts text into a tool call without its wrapping."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call_update":
            update["content"] = [{"type": "text", "text": "5 lines"}]


class OneContent(Outgoing):
    """Puts one content where a list goes."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call_update" and "content" in update:
            update["content"] = update["content"][0]


class ChunkOfMany(Outgoing):
    """Says several contents in one chunk."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "agent_message_chunk":
            update["content"] = [update["content"]]


class ChunkAsNumber(Outgoing):
    """Says numbers."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "agent_message_chunk":
            update["content"]["text"] = 5


class ChunkWithoutText(Outgoing):
    """Says contents with nothing in them."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "agent_message_chunk":
            del update["content"]["text"]


class MarkdownContent(Outgoing):
    """Says contents of a type of its own."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "agent_message_chunk":
            update["content"]["type"] = "markdown"


class DeltaForContent(Outgoing):
    """Calls what it says a delta."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "agent_message_chunk":
            update["delta"] = update.pop("content")


class KindUnderAnotherName(Outgoing):
    """Names the kind of an update type."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        update["type"] = update.pop("sessionUpdate")


class NoKind(Outgoing):
    """Does not name the kind of an update."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        del update["sessionUpdate"]


class UpdateAsRequest(Outgoing):
    """Sends updates as requests."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["id"] = "u-1"


class UpdateWithNullId(Outgoing):
    """Sends updates with an id that is null."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["id"] = None


class UpdateInAList(Outgoing):
    """Puts updates into a list."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["params"]["updates"] = [message["params"].pop("update")]


class UpdateWithoutSession(Outgoing):
    """Does not name the session of an update."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        del message["params"]["sessionId"]


class StrangeSession(Outgoing):
    """Names a session that nobody made."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["params"]["sessionId"] = "main"


class UpperSession(Outgoing):
    """Writes the ids of sessions in capitals."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["params"]["sessionId"] = message["params"]["sessionId"].upper()


class StampedUpdate(Outgoing):
    """Stamps updates with the time, beside the session."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["params"]["timestamp"] = 1


class StampedStep(Outgoing):
    """Numbers the steps of a plan with a member of its own."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "plan":
            update["entries"][0]["number"] = 1


class OldVersion(Outgoing):
    """Says version 1.0 in notifications."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["jsonrpc"] = "1.0"


class VersionAsNumber(Outgoing):
    """Says version 2.0 as a number."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["jsonrpc"] = 2.0


class MethodAsPath(Outgoing):
    """Names methods with a slash in front."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["method"] = "/session/update"


class OwnMethod(Outgoing):
    """Reports by a method of its own that has no underscore."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["method"] = "agent/update"


class ParamsAsText(Outgoing):
    """Sends params as text."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        message["params"] = str(message["params"])
