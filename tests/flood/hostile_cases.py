"""Folders, patterns and arguments of tools that are made to take for ever. Each is cancelled after a while."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.flood.flooded import Flooded, notification, request

IGNORED = {
    "three wildcards": "*a*a*N",
    "one wildcard": "*b",
    "a wildcard before any letters": f"*{'?' * 120}N",
    "classes": f"*{'[ab]' * 100}N",
    "directories": f"{'**/' * 40}a*a*N",
    "plain names": "plain",
}
"""Lines with which an ignore file of 256 KiB is filled."""

LARGEST = 256 * 1024
NAMES = 1000

MOST = 0.2
"""CPU seconds until a cancel is answered, on a machine that is busy; where they do less it is a fourth of that."""

CHECKED = ["unique", "anyOf", "oneOf", "enum", "allOf", "items", "names", "pattern"]


def ignore_file(line: str, wire: Flooded, full: bool) -> None:
    """A search among a thousand names of 255 bytes, below an ignore file at its bound."""
    folder = Path(wire.folder, "project")
    (folder / ".git").mkdir(parents=True)
    lines = (f"{line}{n}" for n in range(LARGEST // (len(line) + 6)))
    (folder / ".gitignore").write_text("\n".join(lines)[:LARGEST])
    for n in range(NAMES if full else NAMES // 10):
        (folder / f"{n:05}".rjust(255, "a")).touch()
    _cancelled(wire, str(folder), "/search nothing", 0.5 if full else 0.1)


def pattern(wire: Flooded, full: bool) -> None:
    """A search for a comment that is full of brackets, and for as many repeats as there may be."""
    for text in (f"(?#{'[' * 9900})", "(?:a{300}){300}"):
        _cancelled(wire, wire.folder, f"/search {text}", 0)


def arguments(kind: str, wire: Flooded, full: bool) -> None:
    """Arguments that are checked against a schema, again and again."""
    _cancelled(wire, wire.folder, f"check {kind}", 1 if full else 0.1)


def _cancelled(wire: Flooded, folder: str, text: str, seconds: float) -> None:
    wire.noted.clear()
    wire.answers.clear()
    wire.ask("initialize", "initialize", protocolVersion=1)
    session = wire.ask("session", "session/new", cwd=folder, mcpServers=[])["result"]["sessionId"]
    # The first call loads what calls need.
    wire.ask("first", "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "/read nothing"}])
    wire.noted.clear()
    prompt = [{"type": "text", "text": text}]
    wire.write(request("watch", "_watch") + request("probe", "session/prompt", sessionId=session, prompt=prompt))
    wire.until(lambda: "begun" in wire.noted)
    wire.burn(seconds)
    wire.arrived = wire.write(notification("session/cancel", sessionId=session))
    wire.until(lambda: "probe" in wire.answers)
    wire.stop()
    assert wire.answers["probe"]["result"]["stopReason"] in ("cancelled", "end_turn")
    assert wire.answered - wire.arrived < MOST


def _named(name: str, flood: Callable[[Flooded, bool], None]) -> Callable[[Flooded, bool], None]:
    flood.__name__ = name
    return flood


CASES: list[Callable[[Flooded, bool], None]] = [
    *(_named(f"ignore file, {name}", partial(ignore_file, line)) for name, line in IGNORED.items()),
    pattern,
    *(_named(f"arguments, {name}", partial(arguments, name)) for name in CHECKED),
]
