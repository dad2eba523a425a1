"""What has arrived and waits: its order, its bound and its end."""

import anyio
import pytest

from acp_server.remote.inbox import Inbox

pytestmark = pytest.mark.anyio


async def test_a_program_gets_whole_messages_in_their_order_and_then_the_end() -> None:
    inbox = Inbox(100)
    for line in (b"a", b"b"):
        inbox.put(line)
    inbox.end(None)
    inbox.put(b"late")
    assert [await inbox.take() for _ in range(2)] == [b"a\nb\n", b""]


async def test_what_came_before_an_error_is_taken_before_it() -> None:
    inbox = Inbox(100)
    inbox.put(b"a")
    inbox.end(OSError("broken"))
    assert await inbox.take() == b"a\n"
    with pytest.raises(OSError, match="broken"):
        await inbox.take()


@pytest.mark.parametrize("how", ["taken", "ended"])
async def test_who_reads_the_network_waits_until_the_program_has_taken_enough(how: str) -> None:
    inbox = Inbox(3)
    inbox.put(b"abc")
    order = list[str]()

    async def wait() -> None:
        await inbox.room()
        order.append("room")

    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            order.append(how)
            if how == "taken":
                await inbox.take()
            else:
                inbox.end(None)
    assert order == [how, "room"]
