"""From a request to its method: our own handlers and those written for jsonrpcserver."""

import gc
import subprocess
import sys
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server.errors import RpcError
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.resolve import JsonRpcError, Result, Success
from tests.wire.live import cancel, request, served

pytestmark = pytest.mark.anyio


async def _echo(call: Call) -> Any:
    return call.params


@pytest.mark.behaviour("A6")
async def test_an_unknown_method_is_refused_by_name() -> None:
    async with served() as peer:
        peer.send(request(1, "no/such"), request(2, "$/no such"))
        assert await peer.answer(1) == {"code": -32601, "message": "Method not found", "data": {"method": "no/such"}}
        assert (await peer.answer(2))["code"] == -32601
        assert await peer.ping() == []


async def test_named_parameters_may_have_any_name() -> None:
    names = {"self": 1, "call": 2, "args": 3, "kwargs": 4, "params": 5, "_the_call": 6, "": 7}
    async with served(Routes({"echo": Route(_echo)})) as peer:
        peer.send(request(1, "echo", names))
        assert await peer.answer(1) == names


@pytest.mark.behaviour("A7")
async def test_positional_parameters_are_invalid_for_our_own_methods() -> None:
    async with served(Routes({"echo": Route(_echo)})) as peer:
        peer.send(request(1, "echo", [1]))
        assert await peer.answer(1) == {"code": -32602, "message": "Invalid params"}
        peer.send(request(2, "echo", []))
        assert await peer.answer(2) == {}


@pytest.mark.behaviour("A7")
async def test_methods_written_for_jsonrpcserver_work_as_they_are() -> None:
    # Not at the top: what imports it must tolerate its warning, as ours does.
    from jsonrpcserver import Error, InvalidParams

    async def add(a: int, b: int = 1) -> Result:
        await anyio.lowlevel.checkpoint()
        return Success(a + b)

    async def fail() -> Result:
        return Error(code=-32001, message="no", data={"why": 1})

    async def invalid(call: str) -> Result:
        return InvalidParams(data=call)

    async def raises() -> Result:
        raise JsonRpcError(code=-32002, message="raised", data=7)

    async def ours() -> Result:
        raise RpcError("ours", code=-32003)

    async def broken() -> Result:
        raise ValueError("secret")

    async def no_result() -> Any:
        return 1

    methods = {"add": add, "fail": fail, "invalid": invalid, "raises": raises}
    methods |= {"ours": ours, "broken": broken, "no_result": no_result}
    async with served(Routes({name: Route(foreign=method) for name, method in methods.items()})) as peer:

        async def ask(method: str, params: Any = None) -> Any:
            peer.send(request(1, method, params))
            answer = await peer.answer(1)
            peer.raw = b""
            return answer

        assert await ask("add", {"a": 1, "b": 2}) == 3
        assert await ask("add", [1]) == 2
        assert await ask("fail") == {"code": -32001, "message": "no", "data": {"why": 1}}
        assert await ask("invalid", {"call": "c"}) == {"code": -32602, "message": "Invalid params", "data": "c"}
        assert await ask("raises") == {"code": -32002, "message": "raised", "data": 7}
        assert await ask("ours") == {"code": -32003, "message": "ours"}
        # Neither the texts of exceptions nor the names of parameters are for the peer.
        assert await ask("add", {"c": 1}) == {"code": -32602, "message": "Invalid params"}
        assert await ask("add") == {"code": -32602, "message": "Invalid params"}
        assert await ask("broken") == {"code": -32603, "message": "Internal error"}
        assert await ask("no_result") == {"code": -32603, "message": "Internal error"}


async def test_a_method_written_for_jsonrpcserver_can_be_cancelled() -> None:
    async def wait() -> Result:
        await anyio.sleep_forever()
        return Success(None)

    async with served(Routes({"wait": Route(foreign=wait)})) as peer:
        peer.send(request(1, "wait"))
        await peer.ping()
        peer.send(cancel(1))
        assert (await peer.answer(1))["code"] == -32800


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="there the frames of a traceback keep each other until the collector comes"
)
async def test_a_failed_request_is_gone_when_it_is_answered_without_the_garbage_collector() -> None:
    calls: list[weakref.ref[Any]] = []

    class Witness:
        pass

    async def fail(_call: Call) -> None:
        witness = Witness()
        calls.append(weakref.ref(witness))
        raise RpcError("no", code=-32001)

    gc.disable()
    try:
        async with served(Routes({"fail": Route(fail)})) as peer:
            peer.send(request(1, "fail"))
            await peer.answer(1)
            await peer.ping()
            assert calls[0]() is None
    finally:
        gc.enable()


async def test_the_handshake_does_not_import_jsonrpcserver_and_the_first_call_does_so_where_warnings_are_errors() -> (
    None
):
    program = """
import sys
import anyio
from acp_server.peer.connection import Connection
from acp_server.peer.call import Route, Routes
from acp_server.testing.streams import memory_pair

async def hello(call):
    return "jsonrpcserver" in sys.modules

async def main():
    here, there = memory_pair()
    connection = Connection(here, Routes({"hello": Route(hello, direct=True), "call": Route(hello)}))
    there.send_nowait(b'{"jsonrpc":"2.0","id":1,"method":"hello"}\\n')
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        print((await there.receive()).decode(), end="")
        there.send_nowait(b'{"jsonrpc":"2.0","id":2,"method":"call"}\\n')
        print((await there.receive()).decode(), end="")
        there.send_eof()

anyio.run(main)
"""
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=30, check=True
        )
    )
    assert done.stdout.splitlines() == [
        '{"jsonrpc":"2.0","id":1,"result":false}',
        '{"jsonrpc":"2.0","id":2,"result":true}',
    ]
    assert done.stderr == ""
