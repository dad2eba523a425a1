"""An agent whose author has forgotten the prompt handler says so."""

import sys
from pathlib import Path

import pytest

from tests.agent.processes.driver import started


@pytest.mark.parametrize("version", [1, 2])
def test_without_a_prompt_handler_sessions_are_refused_and_the_log_says_what_to_add(
    version: int, tmp_path: Path
) -> None:
    (tmp_path / "bare.py").write_text('from acp_server import Agent\nagent = Agent("bare")\n')
    with started([sys.executable, "-m", "acp_server", "serve", str(tmp_path / "bare.py")]) as agent:
        agent.call(1, "initialize", protocolVersion=version, info={"name": "c", "version": "1"}, capabilities={})
        for id, method in ((2, "session/new"), (3, "session/prompt")):
            agent.request(id, method, cwd=str(tmp_path), mcpServers=[])
            error = agent.answer(id)["error"]
            assert (error["code"], error["message"]) == (
                -32601,
                "Method not found",
            )
        assert agent.finish() == 0
        for method in ("session/new", "session/prompt"):
            assert f"the agent has no handler for {method}; add one by @agent.prompt" in agent.stderr
