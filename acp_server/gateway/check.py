"""Whether the agents of a gateway can be used: each is started once, opens a session, and is ended.

Nothing is served meanwhile, and the store is not opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import anyio

from acp_server.client import Patience, spawn_agent
from acp_server.client.remote import RemoteAgent
from acp_server.errors import AcpError
from acp_server.schema import Implementation
from acp_server.schema.methods import METHODS

_PATIENCE = Patience(closed=2, terminated=1)


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one agent."""

    good: bool
    text: str


async def check_agent(command: Sequence[str], cwd: str, seconds: float, protocol: Literal[1, 2] = 2) -> Finding:
    """Start an agent in the folder `cwd`, open a session and end it, all within this time."""
    began = anyio.current_time()
    try:
        with anyio.fail_after(seconds):
            async with spawn_agent(command, cwd=cwd, patience=_PATIENCE, on_stderr=_unheard) as agent:
                who = await _try(agent, cwd, protocol)
                took = anyio.current_time() - began
    except TimeoutError:
        return Finding(False, f"it does not answer within {seconds:g} s")
    except (AcpError, OSError) as error:
        return Finding(False, str(error))
    return Finding(True, f"{who}, ready in {took:.1f} s")


async def _try(agent: RemoteAgent, cwd: str, protocol: Literal[1, 2]) -> str:
    me = Implementation(name="acp-server gateway", version="1")
    answer = await agent.initialize(client_info=me, version=protocol)
    session = await agent.new_session(cwd)
    for method, end in (("session/close", session.close), ("session/delete", session.delete)):
        if agent.link.announced(METHODS[method].capability):
            await end()
    info = answer.agent_info
    return "an agent without a name" if info is None else f"{info.name} {info.version}"


def _unheard(_line: str) -> None:
    """The end of it is in the error, if it is of any use."""
