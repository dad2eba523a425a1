"""Our client and `claude-agent-acp`, which speaks both versions, as far as that goes without an account.

It is installed without the program that its sessions need.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.client import RemoteAgent, spawn_agent
from acp_server.errors import CapabilityMissing, InvalidParams, MethodNotFound, RpcError
from tests.client.processes import PATIENCE

from .subjects import HERE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("require_npm")]

COMMAND = [
    "node",
    str(HERE / "claude" / "node_modules" / "@agentclientprotocol" / "claude-agent-acp" / "dist" / "index.js"),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # it takes two seconds to start


@asynccontextmanager
async def driven(folder: Path, version: Any, **env: str) -> AsyncIterator[RemoteAgent]:
    # Else it would list what the user of this machine has said to it.
    env |= {"CLAUDE_CONFIG_DIR": str(folder)}
    with anyio.fail_after(2 * PATIENCE):
        async with spawn_agent(COMMAND, env=env, on_stderr=lambda _: None) as agent:
            await agent.initialize(version=version)
            yield agent


@pytest.mark.parametrize(("asked", "has", "spoken"), [(2, "auto", 2), (2, "v1", 1), (1, "auto", 1), (2, "v2", 2)])
async def test_both_sides_settle_on_the_highest_version_of_both(
    asked: int, has: str, spoken: int, tmp_path: Path
) -> None:
    async with driven(tmp_path, asked, CLAUDE_AGENT_ACP_PROTOCOL=has) as agent:
        assert agent.info is not None
        assert agent.info.agent_info is not None
        assert (agent.info.protocol_version, agent.link.dialect is not None) == (spoken, spoken == 2)
        assert (agent.info.agent_info.version, agent.info.agent_capabilities.load_session) == ("0.101.0", True)
        assert (await agent.list_sessions()).sessions == []


async def test_what_can_be_asked_on_version_2_without_an_account_is_answered_as_the_version_says(
    tmp_path: Path,
) -> None:
    async with driven(tmp_path, 2) as agent:
        await agent.close_session("none")
        prompt = [{"type": "text", "text": "hello"}]
        for method, params, code in (
            ("session/prompt", {"sessionId": "none", "prompt": prompt}, -32002),
            ("tool_call/cancel", {"sessionId": "none", "toolCallId": "none"}, InvalidParams.code),
            ("auth/login", {"methodId": "none"}, InvalidParams.code),
            ("session/load", {"sessionId": "none", "cwd": str(tmp_path), "mcpServers": []}, MethodNotFound.code),
        ):
            with pytest.raises(RpcError) as refused:
                await agent.request(method, params)
            assert refused.value.code == code, method
        # It lists no way to log in.
        with pytest.raises(CapabilityMissing):
            await agent.logout()
        with pytest.raises(RpcError):
            await agent.new_session(tmp_path)
        assert (await agent.list_sessions()).sessions == []
    assert agent.process is not None
    assert agent.process.exit_code == 0
