"""What `help()` says of the classes that authors work with."""

import inspect
import pydoc
from typing import Any

import pytest

from acp_server import (
    Agent,
    Answer,
    Approval,
    Call,
    Client,
    Compaction,
    Connection,
    Initialization,
    Message,
    Peer,
    PermissionAnswer,
    Session,
    Settings,
    Step,
    Subagent,
    Terminal,
    Tool,
    Toolbox,
    ToolContext,
    ToolResult,
    Turn,
    TurnError,
    TurnRecord,
    Usage,
    UserAction,
)
from acp_server.client import RemoteAgent, RemoteSession, RemoteTurn
from acp_server.schema import PlanEntry, SessionConfigSelect, ToolCall
from acp_server.testing import scripted


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Agent, ["tools"]),
        (Turn, ["session", "client"]),
        (Session, ["data", "record", "tools", "client", "settings"]),
        (RemoteAgent, ["info", "process", "sessions"]),
        (RemoteSession, ["modes", "config_options", "available_commands", "title", "updated_at", "usage", "on_update"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_help_names_the_attributes_that_authors_need(kind: Any, names: list[str]) -> None:
    text = pydoc.plain(pydoc.render_doc(kind))
    for name in names:
        assert f"`{name}`" in (inspect.getdoc(kind) or "")
        assert name in kind.__annotations__ or isinstance(getattr(kind, name), property)
    assert "__annotations__" in text


def test_help_on_a_method_needs_no_other_method_before_it() -> None:
    docs = {name: inspect.getdoc(value) or "" for name, value in vars(RemoteSession).items() if callable(value)}
    assert not [name for name, doc in docs.items() if doc.startswith("The same")]


PEER = {"background", "cancel", "close", "is_lost", "notify", "on_close", "request", "send_room", "wait_closed"}

OFFERED: dict[type, set[str]] = {
    Turn: {
        *("add_usage", "answer", "call", "cancel_tool", "cause", "client", "compaction", "context", "created_at"),
        *("ended_at",),
        *("id", "is_cancelled", "keep", "last_error", "meta", "meta_data", "notice", "params", "plan", "prompt", "put"),
        *(
            "room",
            "run_tool",
            "say",
            "show",
            "state",
            "step",
            "stop_reason",
            "subagent",
            "text",
            "think",
            "tool_results",
            "update",
            "usage",
        ),
    },
    Session: {
        *("answer", "cancel", "closed", "config", "cwd", "enter", "id", "mcp", "mode", "on_close"),
        *("instructions", "mcp_servers", "opening", "roots"),
        *("save", "set_commands", "set_config", "set_mode", "set_modes", "set_options", "set_title", "turn"),
        "update",
    },
    RemoteAgent: {
        *(
            "aclose",
            "authenticate",
            "close_session",
            "delete_session",
            "initialize",
            "knows",
            "list_sessions",
            "load_session",
        ),
        *("logout", "new_session", "notify", "open_session", "process", "request", "resume_session", "start"),
        *("archive_session", "fork_session", "session_options", "session_status", "set_title", "unarchive_session"),
    },
    RemoteSession: {
        *("ask", "cancel", "cancel_terminal", "cancel_tool_call", "close", "delete", "on_update", "prompt", "response"),
        *("run",),
        *("set_config_option", "set_mode", "turn"),
    },
    RemoteTurn: {"cancel", "result", "session", "stop_reason", "wait"},
    Client: {
        *(
            "ask_permission",
            "capabilities",
            "create_terminal",
            "elicit_form",
            "elicit_url",
            "elicitation_complete",
            "notify",
        ),
        *("read_text_file", "request", "request_permission", "write_text_file"),
    },
    Initialization: {"auth_methods", "capabilities", "client_capabilities", "client_info", "meta", "version"},
    ToolContext: {
        *("action", "cancel", "cause", "client", "editor", "executing", "is_cancelled", "locate", "locations"),
        *("on_cancel", "primary_confirmed", "progress", "run", "secondary_confirmed", "session", "set_title"),
        *("subagent", "verbatim"),
    },
    Call: {
        *("answer", "cancel", "cause", "id", "is_cancelled", "meta", "method"),
        *("notify_peer", "partial", "request_peer"),
    },
    Peer: PEER,
    Connection: PEER | {"run"},
    Answer: {"clear", "get", "items", "keys", "meta", "pop", "popitem", "setdefault", "update", "values"},
    Compaction: {"summarize"},
    Step: set(),
    Subagent: set(),
    Terminal: {"kill", "output", "release", "wait_for_exit"},
    Settings: {
        *(
            "choose",
            "has_mode",
            "mode",
            "mode_option",
            "offer_modes",
            "offered",
            "replace",
            "set_mode",
            "state",
            "value",
        ),
    },
    Tool: {"describe", "input_schema", "runs_in"},
    Toolbox: {"add", "describe", "of"},
    Approval: {"previews"},
    UserAction: {"read"},
    ToolResult: {"ok"},
    PermissionAnswer: {"allowed"},
    Message: {"content", "role", "text"},
    TurnError: {"code", "message"},
    TurnRecord: {
        *("contents", "events", "id", "is_here", "is_open", "keep", "kept", "messages", "prompt", "text"),
        "tool_results",
    },
    Usage: {"cached_read", "cached_write", "input", "output", "plus", "thought", "to_wire", "total"},
}

INSIDE: dict[type, set[str]] = {
    Answer: {"added_to"},
    Settings: {
        *(
            "as_update",
            "choose_if_offered",
            "in_step",
            "offer_auto_approve",
            "shown",
            "shown_mode",
            "shown_modes",
            "taken",
        ),
    },
    Terminal: {"let_go", "release_quietly", "seen"},
    Tool: {"always", "check_types"},
    Toolbox: {"check_types"},
    TurnRecord: {
        *("add", "add_child", "add_result", "add_terminal", "begin", "copy", "of_child", "pack", "pieces", "release"),
        *("replay", "restored", "size", "unread"),
    },
}
"""What the runtime alone uses of these classes. The list does not grow."""


ATTRIBUTES: dict[type, set[str]] = {
    Turn: {"record", "session"},
    Session: {"call", "client", "data", "origin", "record", "settings", "system_prompt", "tools"},
    Initialization: {"answer", "call"},
    ToolContext: {"data", "id", "name", "partial", "raw_output", "turn"},
    Approval: {"explains", "message", "preview", "primary", "remember", "secondary", "title"},
    UserAction: {"primary_confirmed", "secondary_confirmed"},
    ToolResult: {"error", "id", "message", "name", "status", "value"},
    PermissionAnswer: {"cancelled", "kind", "meta", "option_id"},
    TurnRecord: {"created_at", "ended_at", "last_error", "meta_data", "status", "stop_reason", "usage"},
}
"""The slots for authors. The attributes of other classes are set in `__init__`, or declared and not in `dir`."""

ATTRIBUTES_INSIDE: dict[type, set[str]] = {
    Session: {"approvals", "state", "turns", "updates"},
    TurnRecord: {"transcript"},
}
"""The slots that the runtime alone uses. The list does not grow."""


@pytest.mark.parametrize("kind", OFFERED, ids=lambda kind: kind.__name__)
def test_a_class_for_authors_offers_nothing_else(kind: type) -> None:
    names = {name for name in dir(kind) if not name.startswith("_")}
    if issubclass(kind, tuple):
        names -= {"count", "index"}
    slots = {name for name in names if inspect.ismemberdescriptor(getattr(kind, name))}
    assert names - slots == OFFERED[kind] | INSIDE.get(kind, set())
    assert slots == ATTRIBUTES.get(kind, set()) | ATTRIBUTES_INSIDE.get(kind, set())


@pytest.mark.anyio
async def test_a_call_shows_its_author_nothing_of_the_runtime() -> None:
    agent = Agent("shown")
    shown: list[set[str]] = []

    @agent.method("_show")
    async def show(call: Call) -> None:
        shown.append({name for name in dir(call) if not name.startswith("_")})

    async with scripted(lambda stream: agent.connect(stream).run()) as client:
        await client.result("_show", {})
    assert shown == [OFFERED[Call] | {"connection", "data", "node", "params", "request"}]
    assert {*Call.__annotations__} == {"connection", "data", "node", "params", "request"}


@pytest.mark.parametrize("kind", [PlanEntry, ToolCall, SessionConfigSelect], ids=lambda kind: kind.__name__)
def test_help_on_a_type_of_the_protocol_says_what_its_fields_mean_and_nothing_of_pydantic(kind: type) -> None:
    text = pydoc.plain(pydoc.render_doc(kind))
    assert len(text.splitlines()) < 100
    assert "__pydantic" not in text
    assert "model_dump" not in text


def test_help_on_a_field_has_its_type_its_meaning_and_its_words() -> None:
    text = inspect.getdoc(PlanEntry) or ""
    assert text.startswith("One step of a plan.\n\ncontent: str\n    ")
    assert "\n    One of pending, in_progress, completed.\n" in text
    assert text.endswith("None if absent or not an object.")


def test_completion_on_a_type_of_the_protocol_offers_its_fields() -> None:
    assert {"content", "status", "to_wire", "from_wire"} <= {*dir(PlanEntry)}
    assert not [name for name in dir(PlanEntry) if name.startswith("_") or name == "model_dump"]
