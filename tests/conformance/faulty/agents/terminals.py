"""Faults in the use of terminals."""

from __future__ import annotations

from collections.abc import Callable

from clean import Clean
from rpc import Call, Json, RpcError
from situations import Session


class NeverReleased(Clean):
    """Does not release its terminals."""

    def release(self, session: Session, created: Json) -> None:
        pass


class KeptAfterCancel(Clean):
    """Does not release the terminal of a cancelled turn."""

    def release(self, session: Session, created: Json) -> None:
        if session.turn and not session.turn.cancelled:
            super().release(session, created)


class KeptAfterError(Clean):
    """Does not release a terminal that it could not wait for."""

    failed = False

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        self.failed = error is not None
        super().answered(call, result, error)

    def release(self, session: Session, created: Json) -> None:
        if not self.failed:
            super().release(session, created)


class LateOneLost(Clean):
    """Does not release a terminal that came into being after the cancel."""

    def ask(self, method: str, params: Json, late: Callable[[Json], None] | None = None) -> Call:
        return super().ask(method, params)


class UsedAfterRelease(Clean):
    """Asks for the output of a terminal that it has released."""

    def release(self, session: Session, created: Json) -> None:
        super().release(session, created)
        self.ask("terminal/output", {"sessionId": session.id, "terminalId": created["terminalId"]})


class ReleasedTwice(Clean):
    """Releases a terminal twice."""

    def release(self, session: Session, created: Json) -> None:
        super().release(session, created)
        super().release(session, created)


class OtherTerminal(Clean):
    """Releases a terminal that it never had."""

    def release(self, session: Session, created: Json) -> None:
        super().release(session, {"terminalId": "terminal_1"})


class EmbedsUnknown(Clean):
    """Shows a terminal in its tool call that it never had."""

    def tool_update(self, session: Session, tool: str, **changes: Json) -> None:
        for content in changes.get("content", []):
            if content["type"] == "terminal":
                content["terminalId"] = "terminal_1"
        super().tool_update(session, tool, **changes)


class RelativeDirectory(Clean):
    """Runs its command in a directory that is not absolute."""

    def ask(self, method: str, params: Json, late: Callable[[Json], None] | None = None) -> Call:
        return super().ask(method, {**params, "cwd": "."} if method == "terminal/create" else params, late)


class CommandLine(Clean):
    """Gives the arguments of its command as one string."""

    def ask(self, method: str, params: Json, late: Callable[[Json], None] | None = None) -> Call:
        return super().ask(method, {**params, "args": "test"} if method == "terminal/create" else params, late)


class CreateErrorUnheard(Clean):
    """Waits for ever when the client cannot create a terminal."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        if error is None:
            super().answered(call, result, error)


class FailedReleaseFails(Clean):
    """Lets the turn fail when a terminal cannot be released."""

    async def use_terminal(self, session: Session, tool: str, terminal: str) -> None:
        where = {"sessionId": session.id, "terminalId": terminal}
        try:
            await self.ask("terminal/wait_for_exit", where)
        finally:
            await self.ask("terminal/release", where)
        self.tool_update(session, tool, status="completed")


class ShowsWhatIsNotThere(Clean):
    """Shows a terminal with a tool call that was never created."""

    async def do_tool(self, session: Session) -> None:
        tool = self.tool_call(session, "Count lines", "execute")
        content = [{"type": "terminal", "terminalId": "none"}]
        self.tool_update(session, tool, status="completed", content=content)
