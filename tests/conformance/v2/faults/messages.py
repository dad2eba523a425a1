"""Faults in the shape of messages, whatever the agent does with them."""

from __future__ import annotations

from typing import Any

from tests.conformance.v2.clean import Clean
from tests.conformance.v2.connection import Session


class ReportsNumbersAsText(Clean):
    """A wrong type."""

    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        self.tell(session, "usage_update", used="12", size=200)
        super().finish(session, reason, **members)


class ForgetsTheState(Clean):
    """A required member is missing."""

    def do_quick(self, session: Session) -> None:
        self.tell(session, "state_update")
        super().do_quick(session)


class ForgetsThePriority(Clean):
    """A required member is missing deep inside."""

    def do_plan(self, session: Session) -> None:
        entries = [{"content": "Look", "status": "pending"}]
        self.tell(session, "plan_update", plan={"type": "items", "planId": "p", "entries": entries})
        super().do_plan(session)


class ClearsTheText(Clean):
    """Null where a value is required, and nothing can be cleared."""

    def do_quick(self, session: Session) -> None:
        self.tell(session, "agent_message_chunk", messageId="a", content=None)
        super().do_quick(session)


class PatchesWithTheChunk(Clean):
    """The content of a known kind of update has the shape of another one."""

    def do_quick(self, session: Session) -> None:
        self.tell(session, "agent_message", messageId="a", content={"type": "text", "text": "whole"})
        super().do_quick(session)


class CallsAFieldByItsOldName(Clean):
    def do_tool(self, session: Session) -> None:
        self.tell(session, "tool_call_update", id="c0", title="Work")
        super().do_tool(session)


class WritesDiffsOfVersion1(Clean):
    """A known tag with the content that another version gives it."""

    def do_tool(self, session: Session) -> None:
        diff = {"type": "diff", "path": "/a", "oldText": "", "newText": "x"}
        self.tell(session, "tool_call_update", toolCallId="c0", title="Work", content=[diff])
        super().do_tool(session)


class ListsSessionsAlone(Clean):
    """A result of the wrong shape."""

    def serve_session_list(self, params: Any) -> Any:
        return super().serve_session_list(params)["sessions"]


class CountsSessions(Clean):
    """An id of the wrong type in a result."""

    def serve_session_list(self, params: Any) -> Any:
        return {"sessions": [{"sessionId": 1, "cwd": "/tmp"}]}


class AsksWithoutOptions(Clean):
    """A request of the wrong shape."""

    def ask(self, session: Session, params: Any) -> None:
        super().ask(session, {**params, "options": {each["optionId"]: each for each in params["options"]}})


class AsksForAList(Clean):
    """An enum that is closed, with a value that it does not have."""

    def do_quick(self, session: Session) -> None:
        schema = {"type": "array", "properties": {}}
        params = {"sessionId": session.id, "mode": "form", "message": "Which?", "requestedSchema": schema}
        self.write({"jsonrpc": "2.0", "id": self.new_id("e"), "method": "elicitation/create", "params": params})
        super().do_quick(session)


class AsksWhatWasNotAnnounced(Clean):
    def do_quick(self, session: Session) -> None:
        schema = {"type": "object", "properties": {}}
        params = {"sessionId": session.id, "mode": "form", "message": "Which?", "requestedSchema": schema}
        self.write({"jsonrpc": "2.0", "id": self.new_id("e"), "method": "elicitation/create", "params": params})
        super().do_quick(session)


class ReadsFiles(Clean):
    """A method that version 2 does not have."""

    def do_quick(self, session: Session) -> None:
        params = {"sessionId": session.id, "path": "/tmp/a"}
        self.write({"jsonrpc": "2.0", "id": self.new_id("f"), "method": "fs/read_text_file", "params": params})
        super().do_quick(session)


class WritesAnArray(Clean):
    def do_quick(self, session: Session) -> None:
        self.write([])
        super().do_quick(session)


class SpellsItsErrors(Clean):
    def refuse(self, id: Any, code: int, data: Any = None) -> None:
        self.write({"jsonrpc": "2.0", "id": id, "error": {"code": str(code), "message": "refused"}})


class AnswersTwice(Clean):
    def serve_session_list(self, params: Any) -> Any:
        self.write({"jsonrpc": "2.0", "id": "never asked", "result": {}})
        return super().serve_session_list(params)


class AsksUnderOneId(Clean):
    def do_quick(self, session: Session) -> None:
        params = {"sessionId": session.id, "mode": "url", "message": "Go", "url": "https://a.b", "elicitationId": "e"}
        for _ in range(2):
            self.write({"jsonrpc": "2.0", "id": "one", "method": "elicitation/create", "params": params})
        super().do_quick(session)


CAUGHT_BY = {
    "v2-envelope/messages": WritesAnArray,
    "v2-envelope/error-objects": SpellsItsErrors,
    "v2-envelope/answers": AnswersTwice,
    "v2-envelope/own-ids": AsksUnderOneId,
    "v2-schema/results": ListsSessionsAlone,
    "v2-schema/requests": AsksWithoutOptions,
    "v2-schema/updates": ReportsNumbersAsText,
    "v2-gating/methods": ReadsFiles,
    "v2-gating/announced": AsksWhatWasNotAnnounced,
}

ALSO_CAUGHT = {
    "v2-schema/updates": (
        ForgetsTheState,
        ForgetsThePriority,
        ClearsTheText,
        PatchesWithTheChunk,
        CallsAFieldByItsOldName,
        WritesDiffsOfVersion1,
    ),
    "v2-schema/results": (CountsSessions,),
    "v2-schema/requests": (AsksForAList,),
}
"""More of them, by the case that accuses them."""


class Open(Clean):
    """No fault: it says what it likes where the schema is open, and clears what can be cleared."""

    def do_quick(self, session: Session) -> None:
        self.tell(session, "_mood_update", mood={"of": ["the", "day"]})
        self.tell(session, "agent_message_chunk", messageId="a", content={"type": "_hologram", "data": 3})
        self.tell(session, "tool_call_update", toolCallId="c0", title="Work", kind="_dream", status="_dreaming")
        self.tell(session, "tool_call_update", toolCallId="c0", title=None, kind=None, content=None, _meta=None)
        self.tell(session, "tool_call_update", toolCallId="c0", status="completed")
        self.tell(session, "agent_message", messageId="a", content=None)
        self.tell(session, "plan_update", plan={"type": "_map", "planId": "p", "roads": []})
        self.state(session, "_daydreaming")
        super().do_quick(session)
