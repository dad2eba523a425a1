"""Writes the messages that the published pages show, a file for each version.

    python -m tests.conformance.core.examples CHECKOUT

CHECKOUT is one of https://github.com/agentclientprotocol/agent-client-protocol, whose `docs/protocol` has the pages.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent / "examples"

_BLOCK = re.compile(r"^( *)```jsonc?[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """One message of a page."""

    page: str
    message: dict[str, Any]
    asked: str
    """The method that a response answers: that of the request before it on the page with its id."""


def examples(version: int) -> list[Example]:
    """The examples of a version, in the order of the pages."""
    return [Example(*each) for each in json.loads((HERE / f"v{version}.json").read_text("utf-8"))]


def _messages(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _, body in _BLOCK.findall(text):
        try:
            value = json.loads(re.sub(r"^\s*//.*$", "", body, flags=re.MULTILINE))
        except ValueError:
            continue  # a piece of a message, or one that is shortened
        if isinstance(value, dict) and value.get("jsonrpc") == "2.0":
            found.append(value)
    return found


def _read(folder: Path) -> list[Example]:
    found: list[Example] = []
    for path in sorted(folder.glob("*.mdx")):
        asked: dict[object, str] = {}
        for message in _messages(path.read_text("utf-8")):
            if "method" in message:
                asked[message.get("id")] = message["method"]
            found.append(Example(path.stem, message, "" if "method" in message else asked.get(message["id"], "")))
    return found


if __name__ == "__main__":
    for number in (1, 2):
        lines = [
            json.dumps(each, ensure_ascii=False) for each in _read(Path(sys.argv[1], "docs/protocol", f"v{number}"))
        ]
        (HERE / f"v{number}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
