"""What is served over TLS: whole, to clients that agree, and to those with a certificate where one is asked for."""

import ssl
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.tls import TLSStream
from wsproto.events import TextMessage

from acp_server.errors import UsageError
from acp_server.http.tls import server_context

from .test_websocket import Echo, serving
from .websocket_client import WebSocket

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent / "certificates"


def context(*, certificate: bool = False, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=HERE / "ca.pem")
    made.maximum_version = version
    if certificate:
        made.load_cert_chain(HERE / "client.pem")
    return made


async def connect(port: int, client: ssl.SSLContext) -> TLSStream:
    return await anyio.connect_tcp("127.0.0.1", port, tls=True, ssl_context=client, tls_standard_compatible=True)


class Large(Echo):
    """Says how long the body was, behind eight megabytes."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        self.scope = scope
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        for _ in range(8):
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        await send({"type": "http.response.body", "body": b"%d" % size})


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_requests_and_answers_pass_whole(version: ssl.TLSVersion) -> None:
    tls = server_context(HERE / "server.pem", None)
    async with serving(app := Large(), tls) as (port, _), await connect(port, context(version=version)) as stream:
        body = b"y" * 3_000_000
        head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        await stream.send(head + body)
        received = b"".join([piece async for piece in stream])
        assert received.count(b"x") >= 8_000_000
        assert b"3000000" in received[-20:]
        assert app.scope["scheme"] == "https"


async def test_websockets_are_served_and_the_client_is_known_by_its_certificate() -> None:
    tls = server_context(HERE / "server.pem", None, HERE / "ca.pem")
    async with (
        serving(app := Echo(), tls) as (port, _),
        await connect(port, context(certificate=True)) as stream,
    ):
        client = WebSocket(stream)
        assert await client.open() == 101
        await client.send(TextMessage(data="x" * 200_000))
        assert await client.text() == "x" * 200_000
        assert app.scope["scheme"] == "wss"
        assert app.scope["extensions"]["tls"] == {"client_cert_name": "CN=client,O=Tests"}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_without_a_certificate_is_refused_where_it_needs_one(version: ssl.TLSVersion) -> None:
    tls = server_context(HERE / "server.pem", None, HERE / "ca.pem")
    async with serving(app := Echo(), tls) as (port, _):
        with pytest.raises((ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream)):  # noqa: PT012
            async with await connect(port, context(version=version)) as stream:
                await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                await stream.receive()
        assert not app.scope


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff", b"\0" * 100])
async def test_what_is_no_tls_is_cut_off(data: bytes) -> None:
    tls = server_context(HERE / "server.pem", None)
    async with serving(app := Echo(), tls) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(data)
        await stream.send_eof()
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
        assert not app.scope


def test_a_certificate_that_cannot_be_used_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="certificate cannot be used"):
        server_context(tmp_path / "none.pem", None)
    (tmp_path / "bad.pem").write_text("nothing")
    with pytest.raises(UsageError, match="certificate cannot be used"):
        server_context(tmp_path / "bad.pem", None)
