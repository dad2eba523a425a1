"""How the sessions of the built-in agents begin: with the directories that they may look into, and with a title."""

from __future__ import annotations

import os
from textwrap import shorten

from anyio import to_thread

from acp_server.schema.params import problem
from acp_server.session.session import Session
from acp_server.session.turn import Turn
from acp_server.workspace.roots import Roots
from acp_server.workspace.shown import Refusal

TITLE = 80
"""Characters of a session's title."""


async def open_roots(session: Session) -> None:
    """Find out where the session may look: `session.data`. Raises InvalidParams if that cannot be a directory."""
    session.data = await to_thread.run_sync(_roots, session.cwd, session.record.additional_directories)


def _roots(cwd: str, directories: list[str]) -> Roots:
    if not os.path.isdir(cwd):
        raise problem("cwd", "is not a directory")
    try:
        return Roots(cwd, directories)
    except (Refusal, ValueError):
        raise problem("additionalDirectories", "has a path that cannot exist here") from None


async def entitle(turn: Turn) -> None:
    """Have lists of sessions say what this one began with."""
    first_line = turn.text.strip().partition("\n")[0]
    if turn.session.record.title is None and first_line:
        await turn.session.set_title(shorten(first_line, TITLE, placeholder=" ..."))
