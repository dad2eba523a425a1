"""In which order the handlers of requests begin."""

from typing import Any

import pytest

from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from tests.peer.ends import request, serving

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("I9")
@pytest.mark.parametrize("running", [None, 1, 3])
async def test_handlers_begin_in_the_order_in_which_their_requests_came(running: int | None) -> None:
    begun: list[Any] = []

    async def note(call: Call) -> None:
        begun.append(call.id)

    async with serving(Routes({"note": Route(note)}), Limits(drain=0, running=running)) as end:
        # Again and again, for trio has its tasks begin in the reverse order only every other time.
        for batch in range(20):
            end.send(*(request(10 * batch + number, "note") for number in range(10)))
            answers = [(await end.next())["id"] for _ in range(10)]
            assert answers == begun[-10:]
    assert begun == list(range(200))
