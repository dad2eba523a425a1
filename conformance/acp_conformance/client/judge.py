"""The program that a client under test starts as its agent. It connects its standard input and output to the suite.

The program sends the client's output to the suite over a socket, and obeys the suite's commands. It uses only the
standard library and is started by its path, so that it starts quickly in any environment and folder. It ends by a
command of the suite, when the suite has ended, or by a signal other than SIGINT. It ignores SIGINT, because Ctrl-C in a
terminal is meant for the client, but also reaches the agent.

A frame in either direction is one byte for its kind, four for its length (big endian), and its content:

    to the suite      H hello: the secret     I input of the client      E end of it
                      B its output is closed on the other side           W standard error has been written
    from the suite    O output      W standard error      C close the output      X exit with this status
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading

HEADER = struct.Struct(">cI")
PIECE = 65536


class Line:
    """The connection to the suite. A frame can be sent from any thread, and is never mixed with another frame."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a frame. If the suite has ended, end the process."""
        try:
            with self._lock:
                self._socket.sendall(HEADER.pack(kind, len(content)) + content)
        except OSError:
            os._exit(0)

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next frame. If the suite has ended, end the process."""
        kind, length = HEADER.unpack(self._exactly(HEADER.size))
        return kind, self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            try:
                piece = self._socket.recv(size - len(content))
            except OSError:
                piece = b""
            if not piece:
                os._exit(0)
            content += piece
        return bytes(content)


def listen(line: Line) -> None:
    """Forward the client's output, until the client closes this program's input."""
    while True:
        try:
            piece = os.read(0, PIECE)
        except OSError:
            piece = b""
        if not piece:
            line.send(b"E")
            return
        line.send(b"I", piece)


def write(fd: int, content: bytes) -> bool:
    """Write all of the data, and return whether the other end is still open."""
    view = memoryview(content)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError:
            return False
    return True


def main() -> None:
    """Connect to the suite and obey its commands."""
    host, port, secret = sys.argv[1:4]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = Line(host, int(port))
    line.send(b"H", secret.encode())
    threading.Thread(target=listen, args=(line,), daemon=True).start()
    while True:
        kind, content = line.receive()
        if kind == b"O":
            if not write(1, content):
                line.send(b"B")
        elif kind == b"W":
            write(2, content)
            line.send(b"W")
        elif kind == b"C":
            os.close(1)
        elif kind == b"X":
            os._exit(int(content))


if __name__ == "__main__":
    main()
