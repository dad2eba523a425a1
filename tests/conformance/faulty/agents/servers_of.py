"""The MCP servers of a session: started or connected to, told that the agent is there, and let go at its end."""

from __future__ import annotations

import json
import os
import socket
import subprocess

from rpc import Json

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "clean", "version": "1"}},
}


class Servers:
    """Those of one session. A server that is not there is done without."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []

    def connect(self, server: Json) -> None:
        """Use one server as its transport wants it."""
        if "url" in server:
            self.post(server["url"], server["headers"])
        else:
            self.start(server["command"], server["args"], server.get("env") or [])

    def start(self, command: str, args: list[str], env: list[Json]) -> None:
        """Start a server, and hear that it serves."""
        variables = {**os.environ, **{each["name"]: each["value"] for each in env}}
        try:
            child = subprocess.Popen([command, *args], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError:
            return
        self._children.append(child)
        assert child.stdin
        assert child.stdout
        child.stdin.write(json.dumps(HELLO).encode() + b"\n")
        child.stdin.flush()
        child.stdout.readline()

    def post(self, url: str, headers: list[Json]) -> None:
        """Ask a server by HTTP whether it serves."""
        host, _, port = url.split("/")[2].partition(":")
        body = json.dumps(HELLO).encode()
        named = [f"{each['name']}: {each['value']}" for each in headers]
        head = ["POST /mcp HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        try:
            with socket.create_connection((host, int(port or 80)), 5) as connection:
                connection.sendall("\r\n".join([*head, *named, "", ""]).encode() + body)
                connection.recv(65536)
        except OSError:
            return

    def close(self) -> None:
        """Let all go, and wait for the end of what was started."""
        for child in self._children:
            assert child.stdin
            child.stdin.close()
            child.wait()
