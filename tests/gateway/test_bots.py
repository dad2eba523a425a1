"""Which run of an agent a chat gets."""

from pathlib import Path

import anyio
import pytest

from acp_server.gateway.bots import Bot
from acp_server.gateway.ids import Ids
from acp_server.gateway.limits import Limits
from acp_server.gateway.records import KnownSession

from .inside import PATIENT
from .serving import BUSY, PATIENCE

pytestmark = pytest.mark.anyio


async def test_a_chat_gets_no_agent_that_has_ended_though_its_run_has_not(tmp_path: Path) -> None:
    """A session that is known is handed out without asking the agent, so its prompt would be the first to notice."""
    bot = Bot("busy", BUSY, str(tmp_path), Ids(), limits=Limits(), patience=PATIENT)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            bot.use(group)
            held = await bot.open(None)
            known = KnownSession(bot.name, held.session.id, held.key)
            assert (await bot.open(known)).process is held.process
            assert held.process.agent is not None
            # What the end of its output does at once; the rest of its end takes a while.
            held.process.agent.link.connection._pending.lose()
            assert (await bot.open(known)).process is not held.process
            group.cancel_scope.cancel()
