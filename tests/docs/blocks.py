"""The Python examples in the guides: each has a name behind `python` on its first line, and runs by itself."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.session.editor import Editor, editing

DOCS = Path(__file__).resolve().parents[2] / "docs"

_BLOCK = re.compile(r"^```python ?(?P<name>.*)\n(?P<source>(?:.*\n)*?)```$", re.MULTILINE)


@cache
def blocks() -> dict[tuple[str, str], str]:
    """The sources by guide and name, each at the line at which it stands in its guide."""
    found: dict[tuple[str, str], str] = {}
    for guide in sorted(DOCS.glob("*.md")):
        text = guide.read_text("utf-8")
        for block in _BLOCK.finditer(text):
            key = (guide.name, block["name"])
            assert block["name"], f"{guide.name}: a block without a name"
            assert key not in found, f"{guide.name}: two blocks are called {block['name']}"
            found[key] = "\n" * text.count("\n", 0, block.start("source")) + block["source"]
    return found


def run(guide: str, name: str) -> dict[str, Any]:
    """Execute a block as a module of its own: what it defines."""
    namespace: dict[str, Any] = {"__name__": f"{guide}:{name}"}
    exec(compile(blocks()[guide, name], str(DOCS / guide), "exec"), namespace)
    return namespace


@asynccontextmanager
async def opened(name: str, guide: str = "agents.md", **capabilities: Any) -> AsyncGenerator[tuple[Editor, str, Any]]:
    """A session with the agent of a block: an editor, the session's id, and what the block defines."""
    example = run(guide, name)
    async with editing(example["agent"], capabilities=capabilities or None) as editor:
        yield editor, await editor.open(), example
