"""Gets an agent served by this process: output claimed, log set up, agent found, in this order."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acp_server.agent.log import drain
from acp_server.agent.standard_io import Claim
from acp_server.cli import logs
from acp_server.errors import UsageError

if TYPE_CHECKING:
    from acp_server.agent.app import Agent
    from acp_server.agent.serve import Servable


def launch(
    target: str | None = None,
    *,
    models: Sequence[str] = (),
    base_url: str | None = None,
    log_level: str = logs.DEFAULT_LEVEL,
    log_file: Path | None = None,
    record: Path | None = None,
    backend: str | None = None,
    store: str | None = None,
    memory_file: Path | None = None,
) -> int:
    """Serve `target` (see `acp_server.cli.target`), or the built-in agent; the exit code. `models`: what drives
    the latter, and `base_url` where those are (see `acp_server.workspace.model_agent`). `store`: where sessions are
    kept (see `acp_server.cli.store`), if not where the agent does of its own accord; `memory_file`: where those are
    kept that would be kept in memory. `record` and `backend`: if not what the target itself asks for, where it calls
    `run`. Raises UsageError."""
    # First of all, so that nothing that the module prints when it is imported reaches the client.
    claim = Claim()
    options: dict[str, Any] = {}
    try:
        logs.configure(log_level, log_file)
        if target is None:
            from acp_server.cli.store import UserStore

            agent = _built_in(models, base_url, backend)
            agent.store = UserStore()
        elif models or base_url is not None:
            raise UsageError("--model and --base-url are for the built-in agent, and not for a target")
        else:
            from acp_server.cli.target import load

            agent, options = load(target)
        if store is not None:
            from acp_server.agent.app import Agent
            from acp_server.cli.store import store_at

            if not isinstance(agent, Agent):
                raise UsageError(f"{target} is of type {type(agent).__name__}, for which there is no --store")
            agent.store = store_at(store)
        if memory_file is not None:
            _outlive_process(agent, memory_file)
    except UsageError:
        # No client is served, so standard error, which may be one pipe with the output, is for saying why.
        drain()
        claim.release()
        raise
    if os.isatty(claim.input):
        sys.stderr.write("Serving on this terminal: type JSON-RPC, or leave with Ctrl-D and try `acp-server chat`.\n")

    from acp_server.agent.serve import run

    said = {"backend": backend, "record": record}
    options |= {name: value for name, value in said.items() if value is not None}
    return run(agent, **options, claim=claim)


def _outlive_process(agent: Servable, file: Path) -> None:
    from acp_server.agent.app import Agent
    from acp_server.store.memory import MemoryStore
    from acp_server.store.sqlite_store import SqliteStore

    if isinstance(agent, Agent) and type(agent.store) is MemoryStore:
        agent.store = SqliteStore(file)


def _built_in(models: Sequence[str], base_url: str | None, backend: str | None) -> Agent:
    if not models:
        if base_url is not None:
            raise UsageError("--base-url says where a model is: name it with --model")
        from acp_server.workspace import agent

        return agent
    if backend == "trio":
        raise UsageError("--model needs the backend asyncio")
    from acp_server.workspace.model_agent import model_agent

    return model_agent(*models, base_url=base_url)
