"""How long a connection is kept for its client."""

import anyio
import pytest

from acp_server.remote import RemoteLimits
from acp_server.remote.kept import Kept

from .http_client import turn_around

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_client_that_has_sent_something_meanwhile_is_waited_for_anew(is_heard: bool) -> None:
    kept = Kept("id", None, RemoteLimits(grace=1000))
    kept.since = anyio.current_time() - 999.99
    async with anyio.create_task_group() as group:
        group.start_soon(kept.watch)
        await anyio.wait_all_tasks_blocked()
        first = kept._stirred
        if is_heard:
            kept._heard()
        await turn_around(lambda: kept.ended.is_set() or kept._stirred is not first)
        assert kept.ended.is_set() is not is_heard
        group.cancel_scope.cancel()
