"""TLS on a connected socket, with the interface of the plain stream."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel

from acp_server.errors import UsageError
from acp_server.http.sockets import Disconnected, SocketStream

_AT_ONCE: Final = 16 * 1024


def server_context(certificate: Path, key: Path | None, clients: Path | None = None) -> ssl.SSLContext:
    """Return the TLS settings of a server with a certificate, its chain and its key. `clients`: the certificate
    authorities that must have signed the clients' certificates. A client without such a certificate is refused. Raises
    UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        context.load_cert_chain(certificate, key)
        if clients is not None:
            context.load_verify_locations(clients)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"the certificate cannot be used: {getattr(error, 'strerror', None) or error}") from None
    return context


class TlsStream:
    """Encrypts a `SocketStream`, with the same methods. Call `handshake` first."""

    def __init__(self, stream: SocketStream, context: ssl.SSLContext) -> None:
        self._stream = stream
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._lock = anyio.Lock()

    async def handshake(self) -> None:
        """Perform the TLS handshake. Raises Disconnected, also if the two sides do not agree."""
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._flush()
                await self._more()
            except (ssl.SSLError, OSError) as error:
                await self._flush()
                raise Disconnected(f"the TLS handshake failed: {type(error).__name__}") from error
        await self._flush()

    @property
    def peer(self) -> str | None:
        """Return the subject of the client certificate (RFC 4514); None without a certificate."""
        found: Any = self._tls.getpeercert()
        if not found:
            return None
        names = [f"{_SHORT.get(key, key)}={_escaped(value)}" for part in found["subject"] for key, value in part]
        return ",".join(reversed(names))

    async def receive(self) -> bytes:
        """See `SocketStream`."""
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                return self._tls.read(_AT_ONCE)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._more()
            except ssl.SSLZeroReturnError:
                return b""
            except (ssl.SSLError, OSError) as error:
                raise Disconnected(f"TLS failed: {type(error).__name__}") from error

    async def send(self, data: bytes) -> None:
        """See `SocketStream`."""
        for begin in range(0, len(data), _AT_ONCE):
            try:
                self._tls.write(data[begin : begin + _AT_ONCE])
            except (ssl.SSLError, OSError) as error:
                raise Disconnected(f"TLS failed: {type(error).__name__}") from error
            await self._flush()

    async def finish(self, seconds: float) -> None:
        """See `SocketStream`."""
        try:
            self._tls.unwrap()
        except (ssl.SSLError, OSError):
            pass  # the client's reply comes later, or never
        with anyio.move_on_after(seconds):
            await self._flush()
        await self._stream.finish(seconds)

    def abort(self) -> None:
        """See `SocketStream`."""
        self._stream.abort()

    async def _flush(self) -> None:
        async with self._lock:
            if data := self._out.read():
                await self._stream.send(data)

    async def _more(self) -> None:
        data = await self._stream.receive()
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()


_SHORT: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
}


def _escaped(value: str) -> str:
    return "".join("\\" + each if each in ',+"\\<>;=' else each for each in value)
