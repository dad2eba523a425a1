"""One question, and the decisions about other calls that can settle it."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from acp_server.session.client import PermissionAnswer
from acp_server.tools.permission import Asking

pytestmark = pytest.mark.anyio

YES = PermissionAnswer("y", "allow_once")


class Client:
    """A client that answers when it is told to. `late`: its answer arrives as the question is withdrawn."""

    def __init__(self, late: bool = False) -> None:
        self.asked = anyio.Event()
        self.late = late
        self.on_late: Callable[[PermissionAnswer], None] | None = None

    async def request_permission(self, *_: Any, on_late: Callable[[PermissionAnswer], None]) -> PermissionAnswer:
        self.on_late = on_late
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            if self.late:
                on_late(YES)
        raise AssertionError


async def settled(client: Client, *decisions: bool) -> tuple[Asking, list[PermissionAnswer | None]]:
    """A question that others decide while it is put, and what came of it."""
    asking = Asking()
    answers: list[PermissionAnswer | None] = []

    async def ask() -> None:
        answers.append(await asking.ask(client, None, []))  # pyright: ignore[reportArgumentType]

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await client.asked.wait()
            for decision in decisions:
                asking.settle(decision)
    return asking, answers


@pytest.mark.parametrize("decision", [True, False])
async def test_the_first_decision_about_others_settles_a_question(decision: bool) -> None:
    asking, answers = await settled(Client(), decision, not decision)
    assert answers == [None]
    assert asking.settled is decision


async def test_an_answer_that_had_arrived_counts_more_and_no_later_decision_changes_that() -> None:
    asking, answers = await settled(Client(late=True), False)
    assert answers == [YES]
    assert asking.settled is None
    asking.settle(False)
    assert asking.settled is None


async def test_an_answer_behind_the_withdrawal_changes_nothing() -> None:
    client = Client()
    asking, answers = await settled(client, False)
    assert client.on_late is not None
    client.on_late(YES)
    assert answers == [None]
    assert asking.settled is False
