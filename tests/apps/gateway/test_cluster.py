"""Commands between nodes, where the store fails or a node is of another version: over a store that obeys."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from acp_server.apps.gateway import cluster
from acp_server.apps.gateway.auth import Caller
from acp_server.apps.gateway.chats import Elsewhere
from acp_server.apps.gateway.cluster import Cluster
from acp_server.apps.gateway.errors import ApiError, Code

from .serving import PATIENCE

pytestmark = pytest.mark.anyio

ME = Caller("me")
PLACE = {"caller": "me", "conversation_id": "1", "chat_id": "2"}


class Chat:
    conversation_id, id = "1", "2"

    def to_wire(self) -> dict[str, Any]:
        return {"id": self.id}


class Other:
    """All that one node works with: its chats, its store, its engine, and itself."""

    id, channel, shared = 7, "channel", True

    def __init__(self) -> None:
        self.commands: dict[int, dict[str, Any]] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        self.answered = anyio.Event()
        self.fails = 0
        """How many answers are not taken."""
        self.cancels = 0
        self.asked = 0
        self.answer: dict[str, Any] | None = None
        """What another node answers; None if that node has gone."""

    async def do(self, function: Callable[..., Any], *args: Any) -> Any:
        match function.__name__, args:
            case "_look", _:
                await anyio.lowlevel.checkpoint()
                return list(self.commands.items()), set()
            case "_answer", (id, answer):
                if self.fails:
                    self.fails -= 1
                    raise OSError("the disk is full")
                self.answers[id] = answer
                del self.commands[id]
                self.answered.set()
                return None
            case "_add", _:
                self.asked += 1
                return None if self.answer is None else 1
            case "_take_answer", _:
                return True, self.answer
            case name, _:
                raise AssertionError(name)

    async def notices(self, _channel: str) -> AsyncIterator[str]:
        yield ""
        await anyio.sleep_forever()

    async def delete_conversation(self, *_: Any) -> list[tuple[str, int]]:
        return [("2", 8), ("3", 8)]

    async def cancel(self, *_: Any) -> Chat:
        if self.commands:
            self.cancels += 1
            return Chat()
        raise Elsewhere(cast("Any", Chat()), 8)


@asynccontextmanager
async def working(node: Other, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    monkeypatch.setattr(cluster, "_LOOK", 0.0)
    there: Any = node
    async with anyio.create_task_group() as group:
        asked = Cluster(there, there, there, there)
        group.start_soon(asked.run)
        with anyio.fail_after(PATIENCE):
            yield asked
        group.cancel_scope.cancel()


async def test_a_command_is_done_once_though_the_store_takes_its_answer_at_the_third_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Other()
    node.commands[5] = {"what": "cancel", **PLACE}
    node.fails = 2
    async with working(node, monkeypatch):
        await node.answered.wait()
    assert (node.cancels, node.answers) == (1, {5: {"chat": {"id": "2"}}})


@pytest.mark.parametrize(
    "command",
    [{"what": "cancel"}, {"what": "paint", **PLACE}, {"what": "submit", **PLACE, "body": {"tool_outputs": 1}}],
)
async def test_a_command_of_another_version_is_answered_and_not_tried_for_ever(
    command: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Other()
    node.commands[5] = command
    async with working(node, monkeypatch):
        await node.answered.wait()
    assert node.answers[5]["code"] == Code.INTERNAL


async def test_an_answer_with_a_code_of_another_version_is_an_error_of_this_one() -> None:
    node = Other()
    node.answer = {"code": 9999, "msg": "new"}
    there: Any = node
    with pytest.raises(ApiError, match="new") as raised:
        await Cluster(there, there, there, there).cancel(ME, "1", "2")
    assert raised.value.code is Code.INTERNAL


async def test_a_node_that_cannot_ask_waits_before_it_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PAUSE", 3600.0)
    node = Other()
    there: Any = node
    async with anyio.create_task_group() as group:
        group.start_soon(Cluster(there, there, there, there).delete_conversation, ME, "1")
        await anyio.wait_all_tasks_blocked()
        assert node.asked == 1
        group.cancel_scope.cancel()
