"""`acp-server doctor` reports the problems that an agent would have in an editor or in the ACP registry.

The agent is started as an editor and the registry start it. Each finding is reported at once, in a line
(`Examination`). The requests are plain JSON (`acp_server.apps.cli.raw_agent`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal, NamedTuple, cast

import anyio
import click

from acp_server.agent.signals import Signals
from acp_server.apps.cli.raw_agent import RawAgent, Silent, short
from acp_server.apps.cli.screen import Screen, use_standard_output
from acp_server.apps.cli.target import COMMAND, AgentCommand, agent_command, not_started
from acp_server.errors import AUTH_REQUIRED, UsageError
from acp_server.processes import ProcessGroup, own_group
from acp_server.tasks.grace import grace


def _above_zero(_ctx: click.Context, _param: click.Parameter, seconds: float) -> float:
    # NaN is not greater than 0 either.
    if not seconds > 0:
        raise click.BadParameter(f"{seconds:g} is not greater than 0")
    return seconds


timeout_option: Final = click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    callback=_above_zero,
    default=60.0,
    show_default=True,
    help="The time-out of a response, in seconds.",
)
"""Adds `--timeout`."""


@click.command(context_settings={"allow_interspersed_args": False})
@timeout_option
@click.option("--registry", is_flag=True, help="Count faults that only the ACP registry refuses.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED)
def doctor(timeout: float, registry: bool, as_json: bool, agent: tuple[str, ...]) -> int:
    """Start AGENT the way an editor and the ACP registry's check start it, and list what would fail there.

    AGENT: as for `acp-server chat`, a Python file, module:attribute, or a command. Exit status 1 if there is a fault.
    Notes do not count as faults.
    """
    use_standard_output()
    found: list[Finding] = []
    screen = Screen()
    tell = found.append if as_json else None
    examination = Examination(agent_command(agent), timeout, screen, registry=registry, tell=tell)
    examination.run()
    if as_json:
        findings = [{"kind": kind, "text": text} for kind, text in found]
        screen.output.write(f"{json.dumps({'faults': examination.faults, 'findings': findings})}\n")
    return 1 if examination.faults else 0


class Finding(NamedTuple):
    """The result of one test of the agent."""

    kind: Literal["ok", "fault", "note"]
    text: str


_COLOURS: Final = {"ok": "green", "fault": "red", "note": "yellow"}
_MARKS: Final = {"ok": "ok   ", "fault": "FAULT", "note": "note "}


def _show(screen: Screen, found: Finding) -> None:
    screen.line(f"{_MARKS[found.kind]} {found.text}", fg=_COLOURS[found.kind], bold=found.kind == "fault")


_SLOW: Final = 5.0
"""Seconds until the answer to `initialize`. A user notices a longer wait."""
_KILLED: Final = 5.0
"""Seconds in which a killed agent has to exit."""
_TYPES: Final = ("agent", "terminal")
_NO_LOGIN: Final = (
    "no authMethods; the registry refuses an agent without one, also if no login is needed: @agent.authenticate(...)"
)
_DROPPED: Final = (
    "it started no MCP server for a session that names one, neither with the session nor in a turn: users would miss "
    "its tools. Agent(mcp=True) connects to them, or session.mcp in your code"
)
_TURN: Final = 20.0
"""Seconds of a turn. A longer turn is ended without a verdict: the model may need the time."""
_SERVER: Final = """
import json, sys
open(sys.argv[1], "w").close()
known = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "doctor", "version": "1"}}, "tools/list": {"tools": []}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": known.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
"""
"""An MCP server without tools, which records that it was started."""
_KEPT: Final = ("PATH", "SYSTEMROOT", "PYTHONPATH", "SSL_CERT_FILE", "UV_CACHE_DIR", "NPM_CONFIG_CACHE")
"""Variables that the registry's check passes on if they are set."""


class Examination:
    """The tests of one agent, and their findings."""

    def __init__(
        self,
        command: AgentCommand,
        timeout: float,
        screen: Screen,
        *,
        registry: bool,
        tell: Callable[[Finding], None] | None = None,
    ) -> None:
        """`tell` is called with each finding; without it, `screen` shows them."""
        """`registry`: whether the agent is meant for the ACP registry. If so, a problem that only the registry would
        refuse is a fault."""
        self.faults: int = 0
        self.agent_info: dict[str, Any] = {}
        """`agentInfo` of the response to `initialize`."""
        self._session_can: dict[str, Any] = {}
        """`sessionCapabilities` of the response to `initialize`."""
        self._command = command
        self._timeout = timeout
        self._screen = screen
        self._tell = tell or partial(_show, screen)
        self._registry = registry
        self._signal: int | None = None
        """The error that has ended the examination early."""

    def run(self) -> None:
        """Run all tests. A test is skipped if its precondition has failed.

        Raises UsageError if the agent does not start. A signal that ends this process ends the agent first. Then this
        raises KeyboardInterrupt for Ctrl-C. For another signal it raises click's Exit with the status that a shell has
        for the signal.
        """
        signals = Signals(lambda _: None)
        signals.take()
        try:
            anyio.run(self._until_signalled, signals)
        finally:
            signals.release()
        if self._signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self._signal is not None:
            raise click.exceptions.Exit(128 + self._signal)

    async def _until_signalled(self, signals: Signals) -> None:
        failure: UsageError | None = None
        with self._screen.output.needed():
            async with anyio.create_task_group() as tasks:

                def end(number: int) -> None:
                    self._signal = number
                    tasks.cancel_scope.cancel()

                tasks.start_soon(signals.deliver, end)
                try:
                    await self._everything()
                except UsageError as error:
                    # It is raised after the task group, which would wrap it.
                    failure = error
                tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _everything(self) -> None:
        with tempfile.TemporaryDirectory(prefix="acp-doctor-") as home:
            await self._as_registry(home)
            await self._without_input(home)

    # -- as the registry's check

    async def _as_registry(self, home: str) -> None:
        # The clock starts before the agent's process, so that its start counts, even while this process sleeps.
        began = time.monotonic()
        async with self._started(home) as peer:
            try:
                answer = await peer.ask("initialize", _INITIALIZE)
            except Silent as silent:
                self._bad(f"initialize: {silent}")
                self._say_folder()
                return
            self._judge(answer, time.monotonic() - began)
            await self._session(peer, home)
            await self._end(peer)

    def _judge(self, answer: dict[str, Any], seconds: float) -> None:
        if "error" in answer:
            self._bad(f"initialize: it answers with an error: {short(answer['error'])}")
            return
        self._check(seconds < _SLOW, f"it answers initialize after {seconds:.1f} s", "users see nothing until then")
        result = answer.get("result")
        info = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        version = info.get("protocolVersion")
        self._check(version == 1, f"protocolVersion is {short(version)}", "editors speak version 1")
        methods = [each for each in _list(info.get("authMethods")) if each.get("type", "agent") in _TYPES]
        if methods:
            self._check(True, f"{len(methods)} authMethods", "")
        else:
            # Editors accept an agent without login methods: it needs no login.
            (self._bad if self._registry else self._note)(_NO_LOGIN)
        if isinstance(info.get("agentInfo"), dict):
            self.agent_info = cast("dict[str, Any]", info["agentInfo"])
        else:
            self._note("no agentInfo: users do not see which agent and version they have")
        can = cast("dict[str, Any]", info.get("agentCapabilities") or {})
        found = can.get("sessionCapabilities")
        self._session_can = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if not can.get("loadSession"):
            self._note("no loadSession: editors cannot open a conversation again")
        elif "list" not in self._session_can:
            self._note("no session/list: editors cannot show which conversations there are")

    async def _session(self, peer: RawAgent, home: str) -> None:
        try:
            answer = await peer.ask("session/new", {"cwd": home, "mcpServers": []})
        except Silent as silent:
            self._bad(f"session/new: {silent}")
            return
        error = answer.get("error")
        if isinstance(error, dict) and cast("dict[str, Any]", error).get("code") == AUTH_REQUIRED:
            self._note("session/new wants a login first")
            return
        result = answer.get("result")
        good = isinstance(result, dict) and isinstance(cast("dict[str, Any]", result).get("sessionId"), str)
        self._check(good, "session/new opens a session" if good else f"session/new: {short(error or result)}", "")

        if good:
            await self._servers(peer, home)
            await self._forget(peer, cast("dict[str, Any]", result)["sessionId"])

    async def _servers(self, peer: RawAgent, home: str) -> None:
        """Test whether the agent connects to MCP servers over stdio, as every agent has to. Many start them with the
        session, some at the first turn. An agent fails only if it has answered a prompt and not started the server by
        then."""
        started = anyio.Path(home, "mcp-server-started")
        server = {"name": "doctor", "command": sys.executable, "args": ["-c", _SERVER, str(started)], "env": []}
        try:
            opened = (await peer.ask("session/new", {"cwd": home, "mcpServers": [server]})).get("result")
            session = cast("dict[str, Any]", opened).get("sessionId") if isinstance(opened, dict) else None
            if session is None:
                self._note("session/new opens no session that names an MCP server")
                return
            ended = True
            if not await started.exists():
                prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
                result = (await peer.ask("session/prompt", prompt, _TURN)).get("result")
                ended = isinstance(result, dict) and cast("dict[str, Any]", result).get("stopReason") == "end_turn"
        except Silent:
            return  # that it answers is looked at elsewhere
        if await started.exists():
            self._check(True, "it starts the MCP servers that a session names", "")
        elif ended:
            self._note(_DROPPED)
        await self._forget(peer, session)

    async def _forget(self, peer: RawAgent, session: str) -> None:
        """Delete the session of the examination, if the agent supports that."""
        way = next((way for way in ("delete", "close") if self._session_can.get(way) is not None), None)
        if way is None:
            return
        try:
            answer = await peer.ask(f"session/{way}", {"sessionId": session})
        except Silent as silent:
            self._bad(f"session/{way}: {silent}")
            return
        if "error" in answer:
            self._note(f"session/{way}: the session of this examination is left: {short(answer['error'])}")

    async def _end(self, peer: RawAgent) -> None:
        """Test whether the agent ends when an editor quits. The editor closes the input, and on some systems it kills
        nothing."""
        await peer.process.stdin.aclose() if peer.process.stdin else None
        with anyio.move_on_after(_SLOW):
            await peer.process.wait()
        code = peer.process.returncode
        said = "it ends with its input" if code == 0 else f"its input ends, and it ends with status {code}"
        if code is None:
            said = f"its input has ended, and it runs on for more than {_SLOW:g} s"
        self._check(
            code == 0, said, "editors would leave it behind" if code is None else "editors show that as a crash"
        )

    # -- as the registry's second check

    async def _without_input(self, home: str) -> None:
        async with self._started(home, subprocess.DEVNULL) as peer:
            with anyio.move_on_after(_SLOW):
                await peer.process.wait()
            code = peer.process.returncode
            said = "it keeps running" if code is None else f"it ends with status {code}"
            self._check(code in (0, None), f"started without input, {said}", "expected 0")

    # -- saying it

    def _say_folder(self) -> None:
        """Report files that are named by relative paths, because an editor starts the agent in another folder."""
        # The target of `acp-server serve` is a module there, or an absolute path.
        first = len(COMMAND) + 1 if self._command.is_served_here else 1
        words = self._command.words[first:]
        if files := [word for word in words if not os.path.isabs(word) and os.path.exists(word)]:
            self._note(f"it is started in another folder, as editors do it: {files[0]} needs its whole path")

    def _check(self, good: bool, what: str, why_not: str) -> None:
        if good:
            self._tell(Finding("ok", what))
        else:
            self._bad(f"{what}; {why_not}" if why_not else what)

    def _bad(self, what: str) -> None:
        self.faults += 1
        self._tell(Finding("fault", what))

    def _note(self, what: str) -> None:
        self._tell(Finding("note", what))

    @asynccontextmanager
    async def _started(self, home: str, stdin: int = subprocess.PIPE) -> AsyncGenerator[RawAgent]:
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        env |= {"HOME": home, "TERM": "dumb", **self._command.env}
        words = list(self._command.words)
        try:
            process = await anyio.open_process(words, stdin=stdin, cwd=home, env=env, **own_group())
        except OSError as error:
            raise not_started(self._command.name, error.strerror) from None
        exited = anyio.Event()
        group = ProcessGroup(process, exited)
        peer = RawAgent(process, self._timeout)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(peer.listen)
                try:
                    yield peer
                finally:
                    if group.is_there:
                        group.kill()
                    tasks.cancel_scope.cancel()
        finally:
            with grace(_KILLED):
                await process.wait()
                exited.set()
                await process.aclose()


def _list(value: Any) -> list[dict[str, Any]]:
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]


_INITIALIZE: Final[dict[str, Any]] = {
    "protocolVersion": 1,
    "clientInfo": {"name": "acp-server doctor", "version": "1"},
    "clientCapabilities": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "_meta": {"terminal_output": True, "terminal-auth": True},
    },
}
