"""Converts updates, options and diffs from the form of version 1, which authors and stores use, to the form of version
2 (ACP v2, updates, session config options, tool calls).

Plain objects are converted to plain objects, and the input is not changed. `updates` has the state of sessions and
turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from acp_server.session.hunks import hunks

if TYPE_CHECKING:
    from acp_server.session.settings import Settings

PLAN: Final = "plan"
"""The id of the plan. In version 1 a session has one plan."""

FINAL: Final = frozenset({"completed", "failed", "cancelled"})
"""The final statuses of a tool call."""


def tool_call(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `tool_call` or `tool_call_update` as a `tool_call_update`, which replaces both in version 2."""
    told: dict[str, Any] = {**update, "sessionUpdate": "tool_call_update"}
    if content := told.get("content"):
        told["content"] = [tool_content(piece) for piece in content]
    if places := told.get("locations"):
        told["locations"] = [_place(place) for place in places]
    meta: dict[str, Any] = told.get("_meta") or {}
    if meta.get("outcome") == "cancelled":
        # Version 2 has a status for cancelled calls, and version 1 has none.
        told["status"] = "cancelled"
        told["_meta"] = {key: value for key, value in meta.items() if key != "outcome"}
        if not told["_meta"]:
            del told["_meta"]
    return told


def tool_content(piece: dict[str, Any]) -> dict[str, Any]:
    """Convert one item of a tool call's content."""
    return diff(piece) if piece.get("type") == "diff" and "newText" in piece else piece


def _place(place: dict[str, Any]) -> dict[str, Any]:
    # Version 2 counts lines from 1. Version 1 also accepts 0.
    return place if place.get("line") != 0 else {key: value for key, value in place.items() if key != "line"}


def plan(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan as a `plan_update`."""
    told = {key: value for key, value in update.items() if key != "entries"}
    told["sessionUpdate"] = "plan_update"
    told["plan"] = {"type": "items", "planId": PLAN, "entries": [_step(each) for each in update.get("entries", ())]}
    return told


def _step(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    # Version 1 has no status for a step that ended without being done.
    return {**entry, "status": "cancelled"} if "outcome" in (entry.get("_meta") or {}) else entry


def commands(update: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an update of the slash commands."""
    return {**update, "availableCommands": [_command(command) for command in update.get("availableCommands", [])]}


def _command(command: Mapping[str, Any]) -> dict[str, Any]:
    told = {"type": "command", **command}
    if isinstance(given := told.get("input"), dict) and "type" not in given:
        told["input"] = {"type": "text", **given}
    return told


def offered(settings: Settings) -> list[dict[str, Any]]:
    """Return all settings of the user, with their current values."""
    return with_mode(settings, [option.to_wire() for option in settings.offered()])


def with_mode(settings: Settings, options: Iterable[dict[str, Any]], mode: str | None = None) -> list[dict[str, Any]]:
    """Convert version 1 config options to the form of version 2. The option for the mode comes first. `mode`: the
    current mode; by default the mode of the settings."""
    # In version 1 the mode may be one of the options.
    told = [_option(option) for option in options if option.get("id") != settings.mode_option]
    current = mode if mode is not None else settings.mode
    if current is None or settings.mode_option is None:
        return told
    modes = [
        {"value": choice.id, "name": choice.name, **({"description": choice.description} if choice.description else {})}
        for choice in settings.modes
    ]
    option = {"type": "select", "configId": settings.mode_option, "name": "Mode", "category": "mode"}
    return [{**option, "currentValue": current, "options": modes}, *told]


def _option(option: dict[str, Any]) -> dict[str, Any]:
    if "id" not in option:
        return option
    told = {("configId" if key == "id" else key): value for key, value in option.items()}
    if isinstance(told.get("options"), list):
        told["options"] = [_group(choice) for choice in told["options"]]
    return told


def _group(choice: dict[str, Any]) -> dict[str, Any]:
    return {("groupId" if key == "group" else key): value for key, value in choice.items()}


def diff(change: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a diff of version 1, with `path`, `oldText` and `newText`, to the form of version 2."""
    path, old, new = change["path"], change.get("oldText"), change["newText"]
    told = {key: value for key, value in change.items() if key not in ("path", "oldText", "newText")}
    told["changes"] = [{"operation": "add" if old is None else "modify", "path": path, "fileType": "text"}]
    if text := git_patch(path, old, new):
        told["patch"] = {"format": "git_patch", "text": text}
    return told


def git_patch(path: str, old: str | None, new: str) -> str:
    """Return the patch from `old` to `new`, with absolute paths and without the prefixes of git (v2, DiffPatchFormat).
    If `old` is None, the patch creates the file. For equal texts it is empty."""
    if old == new:
        return ""
    before = after = _quoted(path)
    head = [f"diff --git {before} {after}"]
    if old is None:
        head.append("new file mode 100644")
        before = "/dev/null"
    lines = list(hunks(old or "", new))
    if lines:
        head += [f"--- {before}", f"+++ {after}"]
    return "\n".join([*head, *lines, ""])


def _quoted(name: str) -> str:
    """Return a file name as git writes it. It is quoted if it has characters that could be read as another line."""
    if all(character.isprintable() and character not in '"\\' for character in name):
        return name
    quoted = "".join(
        f"\\{character}" if character in '"\\' else character if character.isprintable() else _octal(character)
        for character in name
    )
    return f'"{quoted}"'


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogatepass"))
