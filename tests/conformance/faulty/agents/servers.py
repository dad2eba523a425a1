"""Faults in what a session is set up with, and in what is left of an agent."""

from __future__ import annotations

import subprocess
import sys

from clean import Clean
from rpc import INVALID_PARAMS, Call, Json, Request, RpcError
from situations import Session


class NotStarted(Clean):
    """Takes the MCP servers of a session and starts none."""

    def connect(self, server: Json) -> None:
        if "url" in server:
            super().connect(server)


class WithoutArguments(Clean):
    """Starts MCP servers with words cut at their spaces."""

    def connect(self, server: Json) -> None:
        if "args" in server:
            *first, note = server["args"][:5]
            server = {**server, "args": [*first, note, *" ".join(server["args"][5:]).split()]}
        super().connect(server)


class WithoutEnvironment(Clean):
    """Starts MCP servers with its own environment alone."""

    def connect(self, server: Json) -> None:
        super().connect({**server, "env": []} if "args" in server else server)


class HttpInNameOnly(Clean):
    """Announces MCP servers by HTTP, and connects to none."""

    def connect(self, server: Json) -> None:
        if "url" not in server:
            super().connect(server)


class WithoutHeaders(Clean):
    """Connects to MCP servers by HTTP without the headers that the client names."""

    def connect(self, server: Json) -> None:
        super().connect({**server, "headers": []} if "url" in server else server)


class NoMoreDirectories(Clean):
    """Announces additional directories, and refuses them."""

    def directory(self, request: Request) -> str:
        if request.params.get("additionalDirectories"):
            raise RpcError(INVALID_PARAMS, "There is one directory")
        return super().directory(request)


class SpeaksUponALateResult(Clean):
    """Goes on with a turn that was cancelled, when the client's result comes."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        if call.abandoned and error is None:
            self.say(next(iter(self.sessions.values())), "Here it is after all.")
        super().answered(call, result, error)


class MemberInside(Clean):
    """Puts a member of its own into the content of what it says."""

    def chunk(self, kind: str, text: str) -> dict[str, Json]:
        return {"sessionUpdate": kind, "content": {"type": "text", "text": text, "language": "en"}}


class LeavesADaemon(Clean):
    """Leaves a process behind that has a group of its own."""

    def session_id(self) -> str:
        program = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(30)"]
        subprocess.Popen(program, start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
        return super().session_id()


class SpeaksAfterTheCancel(Clean):
    """Says something more a moment after the answer to a prompt that was cancelled."""

    def cancelled(self, request: Request) -> str:
        import threading

        session: Session = next(each for each in self.sessions.values() if each.turn is request)
        later = threading.Timer(0.1, self.say, (session, "Stopped."))
        later.daemon = True
        later.start()
        return "cancelled"
