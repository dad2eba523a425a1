"""What an editor on the official Python SDK does for an agent: files, permissions and terminals, for real.

The test says at which points the editor holds back its answer, and sees when the agent has come to one. It judges
nothing but the agent's process, when the editor has left it.
"""

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import acp
import anyio
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    CreateElicitationResponse,
    CreateTerminalResponse,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    KillTerminalResponse,
    PermissionOption,
    ReadTextFileResponse,
    ReleaseTerminalResponse,
    RequestPermissionResponse,
    TerminalExitStatus,
    TerminalOutputResponse,
    TextContentBlock,
    WaitForTerminalExitResponse,
    WriteTextFileResponse,
)

from .subjects import assert_quiet, no_orphans

_SECONDS = 30

ENDS_HANDLERS = int(version("agent-client-protocol").partition(".")[0]) >= 1
"""Whether this SDK ends the handler of a request that the agent withdraws. It does from 1.0 on."""


def text_block(text: str) -> TextContentBlock:
    """A block of a prompt."""
    return TextContentBlock(type="text", text=text)


class Editor(acp.Client):
    """A client whose answers can be held back, by method.

    `permission` is the kind of the option it chooses, or "cancelled", or "error". `files`, `terminals`: whether it
    offers those.
    """

    def __init__(self, *, permission: str = "allow_once", files: bool = True, terminals: bool = True) -> None:
        self.permission = permission
        self.capabilities = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=files, write_text_file=files), terminal=terminals
        )
        self.said: defaultdict[str, str] = defaultdict(str)
        self.updates: defaultdict[str, list[Any]] = defaultdict(list)
        self.terminals: dict[str, asyncio.subprocess.Process] = {}
        self.released: list[str] = []
        self.questions: list[Any] = []
        self.agent: asyncio.subprocess.Process
        self._reached: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._held: dict[str, asyncio.Event] = {}
        self._writing = asyncio.Lock()

    def hold(self, method: str) -> asyncio.Event:
        """From now on answer `method` only after the event that this returns is set."""
        self._held[method] = asyncio.Event()
        return self._held[method]

    async def reached(self, point: str) -> None:
        """Return when the agent has sent a request, or an update of this kind, since the last call."""
        await self._reached[point].wait()
        self._reached[point].clear()

    async def written(self) -> None:
        """Return when nothing is being written that the agent has asked for so far."""
        async with self._writing:
            pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates[session_id].append(update)
        if update.session_update == "agent_message_chunk":
            self.said[session_id] += update.content.text
        self._reached[update.session_update].set()

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        await self._serve("fs/read_text_file")
        return ReadTextFileResponse(content=await anyio.Path(path).read_text())

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        async with self._writing:
            await self._serve("fs/write_text_file")
            await anyio.Path(path).parent.mkdir(parents=True, exist_ok=True)
            await anyio.Path(path).write_text(content)
        return WriteTextFileResponse()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        self.questions.append(tool_call)
        await self._serve("session/request_permission")
        if self.permission == "error":
            raise acp.RequestError.internal_error()
        chosen = [option.option_id for option in options if option.kind == self.permission]
        if not chosen:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen[0]))

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, **_: Any
    ) -> CreateTerminalResponse:
        await self._serve("terminal/create")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(command, *(args or ()), stdout=pipe)
        terminal_id = f"terminal-{len(self.terminals) + len(self.released) + 1}"
        self.terminals[terminal_id] = process
        return CreateTerminalResponse(terminal_id=terminal_id)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> TerminalOutputResponse:
        await self._serve("terminal/output")
        process = self.terminals[terminal_id]
        assert process.stdout is not None
        output = await process.stdout.read()
        status = TerminalExitStatus(exit_code=process.returncode)
        return TerminalOutputResponse(output=output.decode(), truncated=False, exit_status=status)

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> WaitForTerminalExitResponse:
        await self._serve("terminal/wait_for_exit")
        code = await self.terminals[terminal_id].wait()
        # A negative code is a signal's number, which the protocol has no room for in an exit code.
        return WaitForTerminalExitResponse(exit_code=code if code >= 0 else None)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> KillTerminalResponse:
        await self._serve("terminal/kill")
        await _end(self.terminals[terminal_id])
        return KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> ReleaseTerminalResponse:
        await _end(self.terminals.pop(terminal_id))
        self.released.append(terminal_id)
        await self._serve("terminal/release")
        return ReleaseTerminalResponse()

    async def end_input(self) -> None:
        """Close the agent's stdin, go on reading, and return when the agent has gone.

        The SDK itself first stops to read, and then waits for ever for an agent that had more to say.
        """
        assert self.agent.stdin is not None
        self.agent.stdin.close()
        await self.agent.wait()

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> CreateElicitationResponse:
        raise acp.RequestError.method_not_found("elicitation/create")

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        raise acp.RequestError.method_not_found("elicitation/complete")

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        raise acp.RequestError.method_not_found(method)

    def on_connect(self, conn: acp.Agent) -> None:
        """Nothing to do: the tests call the agent, the editor only answers it."""

    async def end_terminals(self) -> None:
        """End what the agent has not released."""
        for process in self.terminals.values():
            await _end(process)

    async def _serve(self, method: str) -> None:
        self._reached[method].set()
        if method in self._held:
            await self._held[method].wait()


@asynccontextmanager
async def attached(editor: Editor, command: Sequence[str]) -> AsyncIterator[ClientSideConnection]:
    """An initialized connection to an agent of this command.

    On leaving, the SDK closes the agent's stdin and, after a time, terminates it; that it went by itself, with 0,
    quietly, leaving no process and no terminal behind, is asserted then.
    """
    with tempfile.TemporaryFile() as stderr, no_orphans() as mark:
        async with acp.spawn_agent_process(
            editor, *command, env=mark, transport_kwargs={"stderr": stderr.fileno(), "shutdown_timeout": _SECONDS}
        ) as (connection, process):
            editor.agent = process
            try:
                with anyio.fail_after(_SECONDS):
                    await connection.initialize(
                        protocol_version=acp.PROTOCOL_VERSION,
                        client_capabilities=editor.capabilities,
                        client_info=Implementation(name="interop", version="1"),
                    )
                    yield connection
            except BaseException:
                await editor.end_terminals()
                raise
        stderr.seek(0)
        assert_quiet(stderr.read().decode())
        assert process.returncode == 0
        assert editor.terminals == {}


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
