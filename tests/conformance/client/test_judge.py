"""The program that a client starts as its agent hands everything over, and never outlives the suite."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.to_thread import run_sync

from acp_conformance.client.link import Gone, Link, Links, listen

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The suite runs on asyncio alone."""
    return "asyncio"


class Started:
    """A judging agent, as a client has it."""

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env={}, cwd="/", bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr


@asynccontextmanager
async def judge(links: Links) -> AsyncIterator[tuple[Started, Link]]:
    with anyio.fail_after(20):
        started = Started(links.command)
        try:
            link = await links.next()
            yield started, link
            await run_sync(started.process.wait, 15)
            await link.aclose()
        finally:
            started.process.kill()
            started.process.wait()
            for pipe in (started.stdin, started.stdout, started.stderr):
                pipe.close()


async def test_both_directions_pass_through_as_they_are() -> None:
    data = bytes(range(256)) * 1000
    async with listen() as links, judge(links) as (started, link):
        started.stdin.write(b"\x00\n\xff")
        assert await link.frame() == (b"I", b"\x00\n\xff")
        await link.send(b"O", data)
        received = b""
        while len(received) < len(data):
            received += await run_sync(started.stdout.read, 65536)
        assert received == data
        started.stdin.close()
        assert await link.frame() == (b"E", b"")
        await link.send(b"X", b"7")
    assert started.process.returncode == 7


async def test_standard_error_is_written_and_confirmed() -> None:
    async with listen() as links, judge(links) as (started, link):
        await link.send(b"W", b"a line\n")
        assert await link.frame() == (b"W", b"")
        assert await run_sync(started.stderr.read, 65536) == b"a line\n"
        await link.send(b"X", b"0")


async def test_the_output_can_be_closed_while_the_input_is_read() -> None:
    async with listen() as links, judge(links) as (started, link):
        await link.send(b"C")
        assert await run_sync(started.stdout.read, 65536) == b""
        started.stdin.write(b"still here")
        assert await link.frame() == (b"I", b"still here")
        await link.send(b"X", b"0")


async def test_an_interrupt_does_not_end_it() -> None:
    async with listen() as links, judge(links) as (started, link):
        started.process.send_signal(signal.SIGINT)
        started.stdin.write(b"still here")
        assert await link.frame() == (b"I", b"still here")
        started.process.terminate()
        with pytest.raises(Gone):
            await link.frame()
    assert started.process.returncode == -signal.SIGTERM


async def test_it_ends_when_the_suite_is_gone() -> None:
    async with listen() as links, judge(links) as (started, link):
        await link.aclose()
        await run_sync(started.process.wait)
    assert started.process.returncode == 0


async def test_a_client_that_has_closed_the_pipe_does_not_end_it() -> None:
    async with listen() as links, judge(links) as (started, link):
        started.stdout.close()
        await link.send(b"O", b"nobody reads this\n")
        assert await link.frame() == (b"B", b"")
        await link.send(b"X", b"3")
    assert started.process.returncode == 3


async def test_who_does_not_know_the_secret_is_not_listened_to() -> None:
    with anyio.fail_after(20):
        async with listen() as links:
            *command, secret = links.command
            assert await run_sync(subprocess.call, [*command, secret[::-1]]) == 0
            async with judge(links) as (started, link):
                await link.send(b"X", b"0")
            assert started.process.returncode == 0
            assert os.path.isabs(command[-3])


async def test_a_connection_that_has_said_nothing_is_closed_with_the_run() -> None:
    with anyio.fail_after(20):
        async with listen() as links:
            silent = await anyio.connect_tcp("127.0.0.1", int(links.command[-2]))
            # It is taken by then.
            async with judge(links) as (_, link):
                await link.send(b"X", b"0")
        async with silent:
            with pytest.raises(anyio.EndOfStream):
                await silent.receive()
