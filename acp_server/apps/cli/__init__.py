"""The command line. It is also the entry point for editors, since this process serves an agent to them (`launch`).

Each command is a separate module. It is imported when it is called, because an editor waits for `serve`. The options of
`serve` are in `acp_server.apps.cli.commands`. A program that embeds an agent needs nothing of this package.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from acp_server.agent.log import LogHandler, LogStream, UnblockedLog, drain, entry, standard_error
from acp_server.agent.process import StandardIO
from acp_server.agent.signals import own_signals
from acp_server.errors import UsageError
from acp_server.paths import here, open_private
from acp_server.store import lax_rights

if TYPE_CHECKING:
    from acp_server.agent.app import Agent
    from acp_server.agent.serve import Servable
    from acp_server.apps.cli.listen import Listening

logger: logging.Logger = logging.getLogger("acp_server.apps.cli")

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
DEFAULT_LEVEL: Final = "warning"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. If the command line is wrong, one line is written, and the exit code is
    2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if COMPLETION in os.environ:
        return _complete()
    own_signals()
    try:
        # An editor starts `serve` without arguments. This avoids the import of click, a twentieth of the time until the
        # first answer.
        return _command(arguments) if arguments else launch()
    except UsageError as error:
        sys.stderr.write(entry(f"acp-server: {error}"))
        return 2
    except FileNotFoundError:
        if here() is not None:
            raise
        sys.stderr.write(entry("acp-server: the folder that this was started in has been removed"))
        return 2


COMPLETION: Final = "_ACP_SERVER_COMPLETE"
"""The variable by which a shell asks for completions, or for the completion script."""


def _complete() -> int:
    from acp_server.apps.cli.commands import commands

    try:
        commands.main([], prog_name="acp-server")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _command(arguments: Sequence[str]) -> int:
    import click

    from acp_server.apps.cli.commands import commands

    # Log lines quote peers. Commands that set up no log show log lines too.
    UnblockedLog()
    try:
        result = commands.main(arguments, prog_name="acp-server", standalone_mode=False)
    except click.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return result if isinstance(result, int) else 0


def configure_log(level: str, file: Path | None) -> None:
    """Send log records of at least `level` to `file`, and errors to standard error as well. Without a file, all records
    go to standard error. Only the owner can read a new file. Entries are appended to an existing file. If other users
    may read the file, a warning is logged. Raises UsageError if the file cannot be opened."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.addHandler(LogHandler(standard_error(), logging.NOTSET if file is None else logging.ERROR))
    if file is not None:
        fd = _opened(file)
        root.addHandler(LogHandler(LogStream(fd)))
        if (mode := lax_rights(fd)) is not None:
            # The permissions may be intended: the user has named this file.
            logger.warning("other users may be able to read the log %s: its permissions are %s", file, mode)


def _opened(file: Path) -> int:
    try:
        # As a recording: its contents are private to the user.
        return open_private(file, os.O_APPEND, follow=True)
    except OSError as error:
        raise UsageError(f"cannot log to {file}: {error.strerror}") from None


def launch(
    target: str | None = None,
    *,
    models: Sequence[str] = (),
    model_options: Mapping[str, Any] | None = None,
    log_level: str = DEFAULT_LEVEL,
    log_file: Path | None = None,
    record: Path | None = None,
    backend: str | None = None,
    loop: str | None = None,
    store: str | None = None,
    memory_file: Path | None = None,
    listening: Listening | None = None,
) -> int:
    """Serve `target` (see `acp_server.apps.cli.target`) or the built-in agent; returns the exit code. First this claims
    standard output, then it sets up the log, then it finds the agent.

    `models` and `model_options` are for the built-in agent (see `acp_server.apps.coder.model_agent`). `store` replaces
    the store of the agent (see `acp_server.apps.cli.store`). `memory_file`: a file for the sessions that the agent
    would otherwise keep in memory. `record`, `backend` and `loop` replace the arguments of `run` in the target.
    `listening`: the address to serve instead of standard input and output. Raises UsageError.
    """
    # First of all: output of an import must not reach the client.
    standard_io = None if listening is not None else StandardIO()
    options: dict[str, Any] = {}
    given = {name: value for name, value in (model_options or {}).items() if value}
    try:
        configure_log(log_level, log_file)
        if target is None:
            from acp_server.apps.cli.store import UserStore

            agent = _built_in(models, given, backend)
            agent.store = UserStore(agent.name)
        elif models or given:
            raise UsageError("--model and its options apply only to the built-in agent; leave out the target")
        else:
            from acp_server.apps.cli.target import load

            agent, options = load(target)
        if store is not None:
            from acp_server.agent.app import Agent
            from acp_server.apps.cli.store import store_at

            if not isinstance(agent, Agent):
                raise UsageError(f"{target} is of type {type(agent).__name__}, which does not support --store")
            agent.store = store_at(store)
        if memory_file is not None:
            _outlive_process(agent, memory_file)
    except UsageError:
        # No client is served. Standard error may be the same pipe as the output, and is free for the reason.
        drain()
        if standard_io is not None:
            standard_io.release()
        raise

    said = {"backend": backend, "loop": loop, "record": record}
    options |= {name: value for name, value in said.items() if value is not None}
    if listening is not None:
        from acp_server.apps.cli.listen import serve_listening

        return serve_listening(agent, options, listening)

    from acp_server.agent.serve import run

    return run(agent, **options, standard_io=standard_io)


def _outlive_process(agent: Servable, file: Path) -> None:
    from acp_server.agent.app import Agent
    from acp_server.store.memory import MemoryStore
    from acp_server.store.sqlite_store import SqliteStore

    if isinstance(agent, Agent) and type(agent.store) is MemoryStore:
        agent.store = SqliteStore(file)


def _built_in(models: Sequence[str], options: Mapping[str, Any], backend: str | None) -> Agent:
    if not models:
        if "base_url" in options:
            raise UsageError("--base-url needs --model")
        if options:
            raise UsageError("--pass-env and --trust-mcp need --model")
        from acp_server.apps.coder import agent

        return agent
    if backend == "trio":
        raise UsageError("--model needs the backend asyncio")
    from acp_server.apps.coder.model_agent import model_agent

    return model_agent(*models, **options)
