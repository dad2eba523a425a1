"""`acp-server serve`: an agent over standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from acp_server.cli.launch import DEFAULT_LEVEL, LEVELS, configure_log, launch, say_if_terminal
from acp_server.errors import UsageError


@click.command()
@click.argument("target", required=False)
@click.option(
    "--model",
    "models",
    metavar="PROVIDER:NAME",
    multiple=True,
    help="Have a model drive the built-in agent, for example openai:gpt-5. Its key is in the environment. If it is "
    "given several times, the user chooses in each session, and begins with the first.",
)
@click.option(
    "--base-url",
    metavar="URL",
    help="Where the model is, if not at its provider: with openai:NAME any server that is compatible.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default=DEFAULT_LEVEL,
    show_default=True,
    help="What is worth a line in the log.",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the log goes; without it, to standard error.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Record both directions in this file; `acp-server trace` shows it.",
)
@click.option(
    "--store",
    metavar="memory|FILE",
    help="Where sessions are kept: in memory, or in this file. By default the built-in agent has a file in your state "
    "directory, and others do as they are written.",
)
@click.option(
    "--backend",
    type=click.Choice(["asyncio", "trio"]),
    help="The event loop: asyncio, unless the target itself asks for another.",
)
@click.option(
    "--reload",
    is_flag=True,
    help="Start the agent anew when its Python files change; sessions go on. For its author, at work.",
)
@click.option("--memory-file", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
def serve(
    target: str | None,
    models: tuple[str, ...],
    base_url: str | None,
    log_level: str,
    log_file: Path | None,
    record: Path | None,
    store: str | None,
    backend: str | None,
    reload: bool,
    memory_file: Path | None,
) -> int:
    """Serve an agent to an editor over standard input and output.

    TARGET is a module and what it calls its agent, `package.module:attribute`, or a file, `path/to/file.py:attribute`;
    without an attribute it is the one that the file itself runs, or else `agent`. It may be a function that makes the
    agent. Without TARGET the built-in agent is served: it carries out commands offline, or does what a model decides.
    """
    if reload:
        from acp_server.cli.reload import serve_reloading

        if models or base_url is not None:
            raise UsageError("--model and --base-url are for the built-in agent, and --reload is for one of your own")
        configure_log(log_level, log_file)
        say_if_terminal(0)
        said = {"log-level": log_level, "log-file": log_file, "record": record, "store": store, "backend": backend}
        return serve_reloading(target, [f"--{name}={value}" for name, value in said.items() if value is not None])
    return launch(
        target,
        models=models,
        base_url=base_url,
        log_level=log_level,
        log_file=log_file,
        record=record,
        backend=backend,
        store=store,
        memory_file=memory_file,
    )
