"""`acp-server connect URL` connects an editor, which can only start a program, to an agent on another machine.

This module has the options, the signals and the exit status. The rest is in `acp_server.remote`.
"""

from __future__ import annotations

import logging
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import click

from acp_server.agent.log import drain, entry
from acp_server.agent.process import StandardIO
from acp_server.agent.signals import Signals
from acp_server.apps.cli import DEFAULT_LEVEL, LEVELS, configure_log
from acp_server.apps.cli.commands import log_file_option
from acp_server.errors import UsageError
from acp_server.peer.limits import Limits
from acp_server.remote.address import is_websocket
from acp_server.remote.bridge import Bridge
from acp_server.remote.client import RemoteStream, stream_to
from acp_server.store import lax_rights
from acp_server.tasks.grace import grace

logger: logging.Logger = logging.getLogger("acp_server.apps.cli")

_LONGEST_TOKEN: Final = 64 * 1024
"""The most characters that are read from a file with a token."""
_KEPT: Final = "keep:"
_ENDING: Final = 2.0
"""Seconds for closing the connection at the end."""


@click.command()
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with the token for the server, sent as a bearer token.",
)
@click.option(
    "--header",
    "headers",
    metavar="NAME:VALUE",
    multiple=True,
    help="Send this header with each request. Other users of this machine can read it; a token belongs in a file.",
)
@click.option(
    "--cacert",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The certificate authorities of the server, instead of the system's.",
)
@click.option("--cert", type=click.Path(dir_okay=False, path_type=Path), help="Your client certificate.")
@click.option("--key", type=click.Path(dir_okay=False, path_type=Path), help="Its key, if it is in another file.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default=DEFAULT_LEVEL,
    show_default=True,
    help="The lowest level that is logged.",
)
@log_file_option
@click.argument("url")
def connect(
    token_file: Path | None,
    headers: tuple[str, ...],
    cacert: Path | None,
    cert: Path | None,
    key: Path | None,
    log_level: str,
    log_file: Path | None,
    url: str,
) -> int:
    """Connect an editor to the agent at URL: messages are forwarded unchanged, in both directions.

    URL is http:// or https:// for Streamable HTTP, ws://, wss:// or unix:PATH for WebSocket, and keep:NAME for an agent
    of `acp-server keep`. Exit status 1 if the connection is lost. Standard error and the error response to each
    in-flight request then have the reason.
    """
    # First of all, so that nothing else reaches the editor.
    with StandardIO() as standard_io:
        configure_log(log_level, log_file)
        # httpx logs whole addresses, which may contain secrets.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        if url.startswith(_KEPT):
            from acp_server.apps.cli.keep import socket_of

            url = f"unix:{socket_of(url.removeprefix(_KEPT))}"
        opening = stream_to(url, is_websocket(url), _headers(headers), _token(token_file), _trusted(cacert, cert, key))
        signals = Signals(lambda _: None)
        signals.take()
        try:
            why, number = anyio.run(_run, standard_io, opening, signals)
        finally:
            signals.release()
    if why is not None:
        drain()
        sys.stderr.write(entry(f"acp-server: {why}"))
        return 1
    return 0 if number is None else 128 + number


async def _run(
    standard_io: StandardIO, opening: Callable[[], RemoteStream], signals: Signals
) -> tuple[str | None, int | None]:
    """Run until the end; returns the reason why the connection was lost, and the signal that ended it."""
    agent = opening()
    editor = standard_io.stream()
    received: list[int] = []
    why: str | None = None
    limits = Limits()
    try:
        async with anyio.create_task_group() as tasks:

            def end(number: int) -> None:
                received.append(number)
                tasks.cancel_scope.cancel()

            tasks.start_soon(signals.deliver, end)
            why = await Bridge(editor, agent, limits.line, limits.drain, editor.unread).run()
            tasks.cancel_scope.cancel()
    finally:
        with grace(_ENDING):
            await agent.aclose()
        await editor.aclose()
    return why, received[0] if received else None


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon:
            # It may be a secret.
            raise UsageError("--header must be NAME:VALUE")
        headers[name.strip()] = value.strip()
    return headers


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        with path.open(encoding="utf-8") as file:
            token = file.read(_LONGEST_TOKEN).strip()
        if (mode := lax_rights(path)) is not None:
            logger.warning("other users may be able to read the token file %s: its permissions are %s", path, mode)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    return token


def _trusted(authorities: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | bool:
    if authorities is None and certificate is None and key is None:
        return True
    if key is not None and certificate is None:
        raise UsageError("--key needs --cert")
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(str(path) for path in (authorities, certificate, key) if path is not None)
        raise UsageError(f"cannot read certificates from {named}: {error.strerror or error}") from None
    return context
