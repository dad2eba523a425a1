"""When a gateway that was told to end does so, by a clock of the test's own."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from acp_server.apps.gateway.auth import one_token
from acp_server.apps.gateway.events import Forwarded
from acp_server.apps.gateway.gateway import LAST_LOOK, Drain, Gateway, GatewaySettings

from .inside import HERE, begin, client_of, ended, ids
from .serving import PATIENCE, TOKEN


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_idle_gateway_stays_until_proxies_have_seen_that_it_is_not_ready() -> None:
    clock = Clock()
    drain = Drain(30, clock)
    assert not drain.is_over(is_working=False)
    clock.now += LAST_LOOK - 0.1
    assert not drain.is_over(is_working=False)
    clock.now += 0.1
    assert drain.is_over(is_working=False)


def test_what_comes_meanwhile_is_finished_and_its_end_can_be_looked_up() -> None:
    clock = Clock()
    drain = Drain(30, clock)
    assert not drain.is_over(is_working=False)
    clock.now += LAST_LOOK / 2
    assert not drain.is_over(is_working=True)
    clock.now += LAST_LOOK
    assert not drain.is_over(is_working=True)
    assert not drain.is_over(is_working=False)
    clock.now += LAST_LOOK
    assert drain.is_over(is_working=False)


def test_a_gateway_that_never_rests_ends_in_its_time() -> None:
    clock = Clock()
    drain = Drain(30, clock)
    clock.now += 29
    assert not drain.is_over(is_working=True)
    assert drain.left == 1
    clock.now += 1
    assert drain.is_over(is_working=True)


def test_an_idle_gateway_with_a_store_of_its_own_ends_at_once(tmp_path: Path) -> None:
    gateway = Gateway(GatewaySettings(agent=HERE, cwd=str(tmp_path)), one_token(TOKEN))
    assert not gateway.has_drained()
    gateway.drain()
    assert gateway.is_draining
    assert gateway.has_drained()
    gateway._engine.close()


@pytest.mark.anyio
async def test_a_stream_of_another_gateway_is_work_until_it_ends(tmp_path: Path) -> None:
    gateway = Gateway(GatewaySettings(agent=HERE, cwd=str(tmp_path)), one_token(TOKEN))
    told: list[bytes] = []

    async def answer(stream: SocketStream) -> None:
        async with stream:
            asked = b""
            while not asked.endswith(b"{}"):
                asked += await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nevents")

    async def receive() -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Any) -> None:
        if told_now := message.get("body"):
            told.append(told_now)
            gateway.drain()
            assert not gateway.has_drained()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        port = listener.extra(SocketAttribute.local_port)
        forwarded = Forwarded(f"http://127.0.0.1:{port}", "/v3/chat", f"Bearer {TOKEN}", b"{}", gateway.forwarded)
        with anyio.fail_after(PATIENCE):
            await (await forwarded.connect())({}, receive, send)
        group.cancel_scope.cancel()
    assert told == [b"events"]
    assert not gateway.forwarded
    gateway._engine.close()


@pytest.mark.anyio
async def test_a_gateway_that_is_to_end_leaves_a_waiting_chat_to_another_one(tmp_path: Path) -> None:
    settings = GatewaySettings(agent=HERE, cwd=str(tmp_path), store=tmp_path / "store")
    async with client_of(Gateway(settings, one_token(TOKEN))) as http:
        chat = await ended(http, (await begin(http, "ask files"))["data"])
    (call,) = chat["required_action"]["submit_tool_outputs"]["tool_calls"]
    body = {"tool_outputs": [{"tool_call_id": call["id"], "output": "yes"}]}
    submit = {"url": "/v3/chat/submit_tool_outputs", "params": ids(chat), "json": body}
    ending = Gateway(settings, one_token(TOKEN))
    async with client_of(ending) as http:
        ending.drain()
        refused = await http.post(**submit)
        assert (refused.status_code, refused.json()["code"]) == (503, 4009)
        assert 0 < int(refused.headers["Retry-After"]) <= 30
        assert (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"] == chat
    async with client_of(Gateway(settings, one_token(TOKEN))) as http:
        taken = (await http.post(**submit)).json()["data"]
        assert (await ended(http, taken))["status"] == "completed"
