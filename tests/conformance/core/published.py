"""Writes what the newest published schema has beyond the suite's own, a file for each version.

    python -m tests.conformance.core.published [--check]

The schema comes with the npm package `@agentclientprotocol/sdk`; without it nothing is written.
"""

import json
import sys
from pathlib import Path
from typing import Any

from acp_conformance.core.members import PUBLISHED
from acp_conformance.core.schema import FOLDERS
from tests.schema.test_parity import PACKAGE

DATES = {"2.4.0": "2026-11-02"}
"""When the releases of the package were published, which the package does not say."""

PAGES: dict[int, dict[str, Any]] = {
    1: {
        "members": {"SessionCapabilities": ["options"], "ClientSessionCapabilities": ["cursors", "promptSuggestions"]},
        "methods": ["session/options"],
        "updates": ["cursor_update", "prompt_suggestions_update"],
    },
    2: {
        "members": {
            "ClientCapabilities": ["session"],
            "NewSessionRequest": ["configOptions", "systemPrompt"],
            "PromptRequest": ["idempotencyKey"],
            "ResumeSessionRequest": ["configOptions", "systemPrompt"],
            "SessionCapabilities": ["options", "systemPrompt"],
            "StateSnapshot": ["usage"],
            "StateUpdate": ["usage"],
        },
        "methods": ["session/options"],
        "updates": ["cursor_update", "prompt_suggestions_update"],
        "values": ["session", "speed", "subagent", "unknown"],
    },
}
"""What the protocol's pages have, and no package has yet."""

SAME = {
    **dict.fromkeys(("UserMessageChunk", "AgentMessageChunk", "AgentThoughtChunk"), "ContentChunk"),
    "ToolCallProgress": "ToolCallUpdate",
}
"""The published name of a type that is here with its tag."""


def beyond(version: int) -> dict[str, Any]:
    """What the published drafts of a version have, and the suite's own schema has not."""
    release = json.loads((PACKAGE / "package.json").read_text("utf-8"))["version"]
    draft = _definitions(PACKAGE / "schema" / f"v{version}" / "schema.unstable.json")
    ours = _definitions(FOLDERS / f"v{version}" / "schema.json")
    known = json.loads((FOLDERS / f"v{version}" / "methods.json").read_text("utf-8"))["methods"]
    pages = PAGES[version]
    members = {
        name: (_members(draft, SAME.get(name, name)) | {*pages["members"].get(name, ())}) - _members(ours, name)
        for name in sorted(ours)
    }
    methods = {each["x-method"] for each in draft.values() if "x-method" in each} | {*pages["methods"]}
    return {
        "release": f"@agentclientprotocol/sdk {release}",
        "date": DATES[release],
        "members": {name: sorted(new) for name, new in members.items() if new},
        "methods": sorted(methods - known.keys()),
        "updates": sorted((_kinds(draft) | {*pages["updates"]}) - _kinds(ours)),
        "values": sorted((_names(draft) | {*pages.get("values", ())}) - _names(ours)) if version == 2 else [],
    }


def _names(schema: Any) -> set[str]:
    """The enumerated and constant names of a schema, at any depth."""
    if isinstance(schema, list):
        return {name for each in schema for name in _names(each)}
    if not isinstance(schema, dict):
        return set()
    here = [schema.get("const"), *schema.get("enum", ())]
    return {name for name in here if isinstance(name, str)} | _names(list(schema.values()))


def _definitions(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))["$defs"]


def _members(definitions: dict[str, Any], name: str) -> set[str]:
    schema = definitions.get(name, {})
    return set(schema.get("properties", ())) if "oneOf" not in schema else set()


def _kinds(definitions: dict[str, Any]) -> set[str]:
    """The kinds of `session/update`."""
    choices = definitions["SessionUpdate"].get("oneOf") or definitions["SessionUpdate"]["anyOf"]
    resolved = [definitions[each["$ref"].removeprefix("#/$defs/")] if "$ref" in each else each for each in choices]
    tags = [each["properties"]["sessionUpdate"] for each in resolved]
    return {tag["const"] for tag in tags if "const" in tag}


def main() -> int:
    """Write the files; with `--check` only say whether they are stale."""
    if not PACKAGE.is_dir():
        return 0
    stale = 0
    for version in (1, 2):
        path = PUBLISHED / f"v{version}.json"
        text = json.dumps(beyond(version), indent=2) + "\n"
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        stale = 1
        if "--check" in sys.argv:
            sys.stderr.write(f"stale: {path}; run 'make schema'\n")
        else:
            path.write_text(text, "utf-8")
    return stale if "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
