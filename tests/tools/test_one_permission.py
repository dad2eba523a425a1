"""One permission: its answer, and decisions about other calls that come while the user is asked."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from acp_server.session.client import PermissionAnswer
from acp_server.tasks.cause import Cause
from acp_server.tools.approval import CONFIRMED, DECLINED, UserAction
from acp_server.tools.permission import NEVER, Permission, SessionApprovals
from acp_server.tools.tool import Tool

pytestmark = pytest.mark.anyio

YES = PermissionAnswer("y", "allow_once")


class Client:
    """A client that never answers. `late`: but this answer arrives as the question is withdrawn."""

    def __init__(self, late: PermissionAnswer | None = None) -> None:
        self.asked = anyio.Event()
        self.late = late
        self.on_late: Callable[[PermissionAnswer], None] | None = None

    async def ask_permission(self, *_: Any, on_late: Callable[[PermissionAnswer], None]) -> PermissionAnswer:
        self.on_late = on_late
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            if self.late is not None:
                on_late(self.late)
        raise AssertionError


async def prepared(client: Client) -> Permission:
    """A permission of one call, whose question is made and not put yet."""
    tool: Any = Tool(lambda: None, name="act", description="Acts.", approval=True)
    session = SimpleNamespace(client=client, approvals={}, config=lambda *_: None)
    view = SimpleNamespace(ask=lambda *_: None, explain=lambda *_: None, locations=())
    turn = SimpleNamespace(session=session)
    call: Any = SimpleNamespace(tool=tool, id="call", turn=turn, view=view, node=SimpleNamespace(cause=None))
    context: Any = None
    permission = Permission(call, context, SessionApprovals())
    await permission.prepare({}, "Act", {})
    return permission


async def decided(client: Client, *decisions: bool) -> tuple[Permission, tuple[UserAction, str]]:
    """A permission whose question others decide while it is put, and what came of it."""
    permission = await prepared(client)
    outcomes: list[tuple[UserAction, str]] = []

    async def decide() -> None:
        outcomes.append(await permission.decide())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(decide)
            await client.asked.wait()
            for decision in decisions:
                permission.decide_for_all(decision)
    return permission, outcomes[0]


@pytest.mark.parametrize(("decision", "outcome"), [(True, (CONFIRMED, "")), (False, (DECLINED, NEVER))])
async def test_the_first_decision_about_all_calls_decides_about_one_that_is_asked_for(
    decision: bool, outcome: tuple[UserAction, str]
) -> None:
    _, came = await decided(Client(), decision, not decision)
    assert came == outcome


@pytest.mark.parametrize(("decision", "outcome"), [(True, (CONFIRMED, "")), (False, (DECLINED, NEVER))])
async def test_a_decision_about_all_calls_before_the_question_is_put_means_that_it_is_not_put(
    decision: bool, outcome: tuple[UserAction, str]
) -> None:
    client = Client()
    permission = await prepared(client)
    permission.decide_for_all(decision)
    assert await permission.decide() == outcome
    assert not client.asked.is_set()


async def test_an_answer_that_had_arrived_counts_more_and_no_later_decision_changes_that() -> None:
    permission, came = await decided(Client(late=YES), False)
    assert came == (CONFIRMED, "")
    permission.decide_for_all(False)
    assert permission._decided is None


@pytest.mark.behaviour("E12")
@pytest.mark.parametrize("kind", ["allow_always", "reject_always"])
async def test_an_answer_for_always_that_arrives_as_its_call_is_cancelled_is_about_no_other_call(kind: str) -> None:
    client = Client(late=PermissionAnswer("always", kind))
    permission = await prepared(client)
    node: Any = permission._call.node
    async with anyio.create_task_group() as group:
        group.start_soon(permission.decide)
        await client.asked.wait()
        permission.decide_for_all(True)
        node.cause = Cause.USER
    assert permission.always is None
    assert not permission._session.approvals


async def test_an_answer_behind_the_withdrawal_changes_nothing() -> None:
    client = Client()
    permission, came = await decided(client, False)
    assert client.on_late is not None
    client.on_late(YES)
    assert came == (DECLINED, NEVER)
    assert permission._decided is False
