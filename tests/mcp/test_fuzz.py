"""Whatever one message of an MCP server is: no call hangs, no tool is lost that was fine, and nothing is unsaid."""

import logging
import os
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")

from tests.mcp.fuzz import PLACES, play

TIMES = int(os.environ.get("MCP_FUZZ", "10"))
"""How many changes of each message. `python -m tests.mcp.fuzz 1000` plays more."""


@pytest.mark.anyio
@pytest.mark.parametrize("place", PLACES)
async def test_a_conversation_with_one_changed_message_keeps_what_is_promised(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    broken = [each for seed in range(TIMES) for each in await play(place, seed, tmp_path, caplog)]
    assert not broken
