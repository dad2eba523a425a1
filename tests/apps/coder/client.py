"""What a client of the built-in agent does when it is asked: permissions, and files with unsaved changes."""

from pathlib import Path
from typing import Any

from .talk import Talk

PERMISSION = "session/request_permission"
READ, WRITE = "fs/read_text_file", "fs/write_text_file"
FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}
TERMINALS = {"terminal": True}


def chosen(option: str) -> dict[str, Any]:
    """The answer of a user who has chosen this option."""
    return {"outcome": {"outcome": "selected", "optionId": option}}


async def asked(talk: Talk, method: str = PERMISSION) -> dict[str, Any]:
    """Wait for a request of the agent's: the message."""
    return await talk.client.expect(lambda m: m.get("method") == method)


class Buffers:
    """The files of an editor: what is in them, saved or not, by their paths."""

    def __init__(self, talk: Talk, texts: dict[Path, str]) -> None:
        self.texts = {str(path): text for path, text in texts.items()}
        talk.client.answer(READ, lambda m: {"content": self.texts[m["params"]["path"]]})
        talk.client.answer(WRITE, self._write)

    def _write(self, message: dict[str, Any]) -> dict[str, Any]:
        self.texts[message["params"]["path"]] = message["params"]["content"]
        return {}
