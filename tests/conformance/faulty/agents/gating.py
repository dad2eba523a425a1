"""Faults in what may be asked of whom."""

from __future__ import annotations

from clean import Clean
from rpc import Json, Request, RpcError
from situations import Session


class ReadsAnyway(Clean):
    """Reads through a client that has not announced it."""

    def announced(self, name: str) -> bool:
        return name == "fs.readTextFile" or super().announced(name)


class WritesAnyway(Clean):
    """Writes through a client that has not announced it."""

    def announced(self, name: str) -> bool:
        return name == "fs.writeTextFile" or super().announced(name)


class TerminalAnyway(Clean):
    """Runs a command through a client that has not announced terminals."""

    def announced(self, name: str) -> bool:
        return name == "terminal" or super().announced(name)


class WritesWithLeaveToRead(Clean):
    """Takes the leave to read for the leave to write."""

    def announced(self, name: str) -> bool:
        return super().announced("fs.readTextFile" if name == "fs.writeTextFile" else name)


class CannotLoad(Clean):
    """Announces session/load and does not have it."""

    def __init__(self) -> None:
        super().__init__()
        del self.methods["session/load"]


class CannotClose(Clean):
    """Announces session/close and does not have it."""

    def __init__(self) -> None:
        super().__init__()
        del self.methods["session/close"]


class CannotList(Clean):
    """Announces session/list and does not have it."""

    def __init__(self) -> None:
        super().__init__()
        del self.methods["session/list"]


class CannotResume(Clean):
    """Announces session/resume and does not have it."""

    def __init__(self) -> None:
        super().__init__()
        del self.methods["session/resume"]


class CannotDelete(Clean):
    """Announces session/delete and does not have it."""

    def __init__(self) -> None:
        super().__init__()
        del self.methods["session/delete"]


class OnlyText(Clean):
    """Refuses a prompt with a link to a resource."""

    def text(self, prompt: list[Json]) -> str:
        if any(block.get("type") == "resource_link" for block in prompt):
            raise RpcError(-32602, "Only text")
        return super().text(prompt)


class RelativePath(Clean):
    """Asks the client for a file by a relative path."""

    async def do_read(self, session: Session) -> None:
        session.cwd, cwd = ".", session.cwd
        try:
            await super().do_read(session)
        finally:
            session.cwd = cwd


class LineZero(Clean):
    """Counts the lines of a file from zero."""

    def ask(self, method: str, params: Json, late: Json = None) -> Json:
        return super().ask(method, {**params, "line": 0} if method == "fs/read_text_file" else params, late)


class ClaimsToLoad(Clean):
    """Answers session/load, which it does not announce, as if it had loaded something."""

    def capabilities(self) -> dict[str, Json]:
        return {**super().capabilities(), "loadSession": False}

    async def load_session(self, request: Request) -> Json:
        return {}
