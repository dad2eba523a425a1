"""Finds the address and anchor of the section from which a rule comes.

`headings.json` has the headings of the pages of ACP v1. Their anchors are made in the same way as on the site. A rule
gets no link if `headings.json` lacks its heading, so that no link is dead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

_ACP = "https://agentclientprotocol.com"
_SUITE = "https://github.com/acp-server/acp-server/blob/main/docs/conformance.md"
_RFD = f"{_ACP}/rfds/request-cancellation"
_RPC = "https://www.jsonrpc.org/specification"
_RFC = "https://www.rfc-editor.org/rfc/rfc8259"

_RPC_ANCHORS: Mapping[str, str] = {
    "overview": "overview",
    "3": "compatibility",
    "4.1": "notification",
    "4.2": "parameter_structures",
    "4": "request_object",
    "5.1": "error_object",
    "5": "response_object",
    "6": "batch",
    "request": "request_object",
    "notification": "notification",
    "response": "response_object",
    "error": "error_object",
    "batch": "batch",
}
_DRAFT_PAGES: Mapping[str, str] = {
    "Initialization": "initialization",
    "Transports": "transports",
    "Methods": "overview",
    "Overview": "overview#argument-requirements",
    "Prompt lifecycle": "prompt-lifecycle",
    "Prompt lifecycle, Second prompts": "prompt-lifecycle",
    "Errors": "error",
    "Content": "content",
    "Session updates": "prompt-lifecycle#3-agent-reports-output",
    "Messages": "prompt-lifecycle#message-ids",
    "Tool calls": "tool-calls",
    "Plan": "agent-plan",
    "Diffs": "tool-calls#diffs",
    "Background work": "schema",
    "Slash commands": "slash-commands",
    "Terminals": "tool-calls#display-only-terminals",
    "Cancellation": "prompt-lifecycle#cancellation",
    "Tool call cancellation": "schema",
    "Terminal cancellation": "schema",
    "Session close": "session-setup#closing-active-sessions",
    "Session delete": "session-delete",
    "Permission requests": "tool-calls#requesting-permission",
    "Session setup": "session-setup",
    "Session list": "session-list",
    "Session resume": "session-setup#resuming-sessions",
    "Config options": "session-config-options",
    "Authentication": "authentication",
    "Elicitation": "elicitation",
    "Schema": "schema",
    "Extensibility": "extensibility",
}
"""The pages of the draft by the subject of its rules. If the schema is newer than the page, the schema counts."""

_RFD_HEADINGS = (
    "Shiny future",
    "Cancellation Method",
    "Cancellation Behavior",
    "Cancellation Processing",
    "Internal Cancellation",
    "Error Code",
    "Frequently asked questions",
    "How does this relate to existing cancellation mechanisms like `session/cancel`?",
    "What happens if a request completes before the cancellation is processed?",
    "How should implementations handle cascading cancellation?",
)


def link_to(source: str, section: str) -> str:
    """Return the address of a section, such as `Prompt Turn, Cancellation` of `ACP v1`; empty if the section is
    unknown."""
    match source:
        case "acp-conformance":
            return f"{_SUITE}#{_slug(section)}"
        case "ACP v1":
            return _acp(*section.split(", "))
        case "ACP v2 draft":
            page = _DRAFT_PAGES.get(section)
            return f"{_ACP}/protocol/v2/{page}" if page else ""
        case "JSON-RPC 2.0":
            anchor = _RPC_ANCHORS.get(re.split(r"[\s,:]", section.lower())[0])
            return f"{_RPC}#{anchor}" if anchor else ""
        case "RFD request-cancellation":
            return _rfd(section)
        case "RFC 8259":
            number = "2" if section == "Insignificant whitespace" else re.split(r"[\s,]", section)[0]
            return f"{_RFC}#section-{quote(number)}"
        case _:
            return ""


def _acp(title: str, *sections: str) -> str:
    if title == "Schema":
        page = f"{_ACP}/protocol/v1/schema"
        return f"{page}#{quote(sections[0].lower())}" if sections else page
    known = _pages().get(title)
    if known is None:
        return ""
    page = f"{_ACP}/protocol/v1/{known['page']}"
    heading = _heading(known["headings"], ", ".join(sections))
    return page if not sections else f"{page}#{_slug(heading)}" if heading else ""


def _rfd(section: str) -> str:
    wanted = section.removeprefix("FAQ, ").replace("FAQ", "Frequently asked questions")
    heading = _heading(_RFD_HEADINGS, wanted)
    return f"{_RFD}#{_slug(heading)}" if heading else ""


def _heading(headings: Sequence[str], wanted: str) -> str:
    """Return the heading of this name. The number and the mark-up of the heading are optional."""
    for heading in headings:
        if wanted in (heading, plain := heading.replace("`", ""), re.sub(r"^\d+\. ", "", plain)):
            return heading
    return ""


def _slug(heading: str) -> str:
    """Return the anchor of a heading as the site makes it: `The _meta Field` is `the-_meta-field`, `fs/read_text_file`
    is `fs%2Fread_text_file`."""
    words = re.sub(r"[`.,:?!()*]", "", heading.lower()).strip("_ ").split()
    return "-".join(quote(word, safe="_-") for word in words)


@cache
def _pages() -> Mapping[str, Any]:
    return json.loads((resources.files("acp_conformance.report") / "headings.json").read_text("utf-8"))
