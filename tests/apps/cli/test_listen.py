"""`acp-server serve --listen`: clients over HTTP and WebSocket come to an agent that runs as a program."""

import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.agent.processes.driver import environment

COMMAND = [sys.executable, "-m", "acp_server", "serve"]
CERTIFICATES = Path(__file__).parents[2] / "http" / "certificates"
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
SECRET = "secret-of-ann"


class Served:
    """The program: where it listens, and what it has said."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        self.process = process
        self.said = ""
        self.address = ""
        while not (found := re.search(r"Listening on (\S+)", self.said)):
            line = process.stderr.readline()
            assert line, self.said
            self.said += line
        self.address = found[1]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=30)
        self.said += said
        return self.process.returncode


@contextmanager
def served(*arguments: str, cwd: Path) -> Iterator[Served]:
    words = [*COMMAND, "--store", "memory", *arguments]
    pipe = subprocess.PIPE
    pipes: Any = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
    with subprocess.Popen(words, cwd=cwd, env=environment(), text=True, **pipes) as process:
        try:
            yield Served(process)
        finally:
            if process.poll() is None:
                process.kill()


def initialize(client: httpx.Client, url: str, **headers: str) -> httpx.Response:
    return client.post(url, json=INITIALIZE, headers=headers)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_agent_is_served_until_a_signal_though_a_client_reads(backend: str, number: int, tmp_path: Path) -> None:
    with served("--listen", "127.0.0.1:0", "--backend", backend, cwd=tmp_path) as program, httpx.Client() as client:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/acp", program.address)
        answer = initialize(client, program.address)
        assert answer.json()["result"]["agentInfo"]["name"] == "acp-server"
        headers = {"accept": "text/event-stream", "acp-connection-id": answer.headers["acp-connection-id"]}
        with client.stream("GET", program.address, headers=headers) as events:
            assert events.status_code == 200
            # At once, and not when those that read have had their time.
            assert program.stop(number) == 128 + number
            assert "".join(events.iter_text()).replace(":\n\n", "") == ""
        assert program.said.count("\n") == 1


def test_a_program_of_an_author_is_served_with_its_own_options(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from acp_server import Agent, Limits, Turn\n"
        "agent = Agent('mine')\n"
        "print('to the terminal')\n"
        "@agent.prompt\n"
        "async def prompt(turn: Turn): yield 'hello'\n"
        "if __name__ == '__main__': agent.run(backend='trio', limits=Limits(line=500))\n"
    )
    words = [*COMMAND, "mine.py", "--listen", "127.0.0.1:0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=pipe, stderr=pipe, text=True) as process:
        program = Served(process)
        with httpx.Client() as client:
            answer = initialize(client, program.address)
            assert answer.json()["result"]["agentInfo"]["name"] == "mine"
            elsewhere = program.address.replace("/acp", "/")
            assert client.post(elsewhere, json=INITIALIZE).status_code == 404
            upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
            upgrade["sec-websocket-key"] = "dGhlIHNhbXBsZSBub25jZQ=="
            assert client.get(elsewhere, headers=upgrade).status_code == 404
        assert program.stop() == 128 + signal.SIGTERM


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("work", ["await anyio.to_thread.run_sync(hang)", "hang()"], ids=["thread", "loop"])
def test_one_signal_ends_the_server_though_a_handler_never_ends(work: str, backend: str, tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(
        "import anyio, anyio.to_thread, sys, threading\n"
        "from acp_server import Agent, Call, Limits\n"
        "agent = Agent('stuck')\n"
        "def hang():\n"
        "    print('it hangs', file=sys.stderr, flush=True)\n"
        "    threading.Event().wait()\n"
        "@agent.method('_hang')\n"
        f"async def handle(call: Call) -> None:\n    {work}\n"
        f"agent.run(backend={backend!r}, limits=Limits(drain=0.1, grace=0.1, flush=0.1))\n"
    )
    with served("stuck.py", "--listen", "127.0.0.1:0", cwd=tmp_path) as server:
        given = httpx.post(server.address, json=INITIALIZE)
        url = httpx.URL(server.address)
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "_hang"}'
        with socket.create_connection((url.host, url.port or 0)) as stream:
            # The response is not awaited: the loop may be blocked before it is sent.
            stream.sendall(
                f"POST /acp HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n"
                f"Acp-Connection-Id: {given.headers['acp-connection-id']}\r\n\r\n".encode()
                + body
            )
            assert server.process.stderr is not None
            while "it hangs" not in server.said:
                server.said += server.process.stderr.readline()
            assert server.stop() == 128 + signal.SIGTERM


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs sockets of Unix")
def test_what_an_agent_has_started_does_not_outlive_the_server(tmp_path: Path) -> None:
    (tmp_path / "starting.py").write_text(
        "import subprocess\nfrom acp_server import Agent\n"
        "process = subprocess.Popen(['sleep', '1000'])\nagent = Agent(str(process.pid))\n"
    )
    with served("starting.py", "--listen", "127.0.0.1:0", cwd=tmp_path) as program, httpx.Client() as client:
        pid = int(initialize(client, program.address).json()["result"]["agentInfo"]["name"])
        assert psutil.pid_exists(pid)
        program.stop()
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_unix_socket_is_the_users_own_and_one_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with served("--listen", f"unix:{path}", cwd=tmp_path) as program:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
            assert initialize(client, "http://whatever/acp").status_code == 200
        again = subprocess.run([*COMMAND, "--listen", f"unix:{path}"], capture_output=True, text=True, timeout=30)
        assert (again.returncode, "cannot listen" in again.stderr) == (2, True)
        program.stop()
    assert not path.exists()


def test_a_token_is_needed_and_in_no_log(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"ann {SECRET}\n")
    options = [
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        "tokens",
        "--log-level",
        "debug",
        "--origin",
        "https://a.example",
    ]
    with served(*options, cwd=tmp_path) as program, httpx.Client() as client:
        assert initialize(client, program.address).status_code == 401
        assert initialize(client, program.address, authorization="Bearer wrong").status_code == 401
        assert initialize(client, program.address, authorization=f"Bearer {SECRET}").status_code == 200
        page = {"authorization": f"Bearer {SECRET}", "origin": "https://a.example"}
        assert initialize(client, program.address, **page).status_code == 200
        page["origin"] = "https://evil.example"
        assert initialize(client, program.address, **page).status_code == 403
        program.stop()
    assert SECRET not in program.said


def test_tls_with_certificates_of_clients_says_who_they_are(tmp_path: Path) -> None:
    options = ["--tls-cert", str(CERTIFICATES / "server.pem"), "--tls-client-ca", str(CERTIFICATES / "ca.pem")]
    trusted = ssl.create_default_context(cafile=CERTIFICATES / "ca.pem")
    with served("--listen", "0.0.0.0:0", *options, cwd=tmp_path) as program:
        url = program.address.replace("0.0.0.0", "127.0.0.1")
        assert url.startswith("https://")
        with httpx.Client(verify=trusted) as client, pytest.raises(httpx.TransportError):
            initialize(client, url)
        known = ssl.create_default_context(cafile=CERTIFICATES / "ca.pem")
        known.load_cert_chain(CERTIFICATES / "client.pem")
        with httpx.Client(verify=known) as client:
            assert initialize(client, url, host="agents.example").status_code == 200
        program.stop()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--listen", "0.0.0.0:0"], "every program that can connect to 0.0.0.0:0 could drive the agent"),
        (["--listen", "[::]:0"], "every program"),
        (["--listen", "example.org:0"], "every program"),
        (["--listen", "0.0.0.0:0", "--tls-cert", str(CERTIFICATES / "server.pem")], "every program"),
        (["--listen", "0.0.0.0:0", "--token-file", "none"], "cannot read the tokens"),
        (["--listen", "127.0.0.1"], "expected HOST:PORT or unix:PATH"),
        (["--listen", "127.0.0.1:x"], "expected HOST:PORT or unix:PATH"),
        (["--listen", "127.0.0.1:99999"], "expected HOST:PORT or unix:PATH"),
        (["--listen", "192.0.2.1:0", "--token-file", "tokens"], "cannot listen on 192.0.2.1:0"),
        (["--listen", "unix:/none/at/all"], "cannot listen on unix:/none/at/all"),
        (["--listen", "127.0.0.1:0", "--tls-key", "x"], "--tls-key and --tls-client-ca need --tls-cert"),
        (["--listen", "127.0.0.1:0", "--tls-cert", "none"], "the certificate cannot be used"),
        (["--listen", "127.0.0.1:0", "--record", "x"], "--reload and --record"),
        (["--listen", "127.0.0.1:0", "--reload"], "--reload and --record"),
        (["--token-file", "tokens"], "need --listen"),
    ],
)
def test_what_cannot_or_may_not_be_served_is_said_in_one_line(options: list[str], why: str, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("ann secret\n")
    ended = subprocess.run(
        [*COMMAND, *options], cwd=tmp_path, env=environment(), input="", capture_output=True, text=True, timeout=30
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert why in ended.stderr
    assert "Traceback" not in ended.stderr


def test_tokens_in_the_clear_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("ann secret\n")
    with served("--listen", "0.0.0.0:0", "--token-file", "tokens", cwd=tmp_path) as program:
        program.stop()
    assert "are sent unencrypted" in program.said


def messages(lines: Any) -> Iterator[Any]:
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line[6:])


def test_a_prompt_is_answered_by_the_built_in_agent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("what is in it\n")
    with served("--listen", "127.0.0.1:0", cwd=tmp_path) as program, httpx.Client() as client:
        url = program.address
        own = {"acp-connection-id": initialize(client, url).headers["acp-connection-id"]}

        def post(id: int, method: str, params: Any, **headers: str) -> None:
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            assert client.post(url, json=message, headers={**own, **headers}).status_code == 202

        events = {"accept": "text/event-stream"}
        with client.stream("GET", url, headers={**own, **events}) as connection:
            post(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
            session = next(messages(connection.iter_lines()))["result"]["sessionId"]
            its = {"acp-session-id": session}
            with client.stream("GET", url, headers={**own, **events, **its}) as stream:
                prompt = [{"type": "text", "text": "/read a.txt"}]
                post(2, "session/prompt", {"sessionId": session, "prompt": prompt}, **its)
                seen = []
                for message in messages(stream.iter_lines()):
                    seen.append(message)
                    if message.get("id") == 2:
                        break
                assert seen[-1]["result"]["stopReason"] == "end_turn"
                assert "what is in it" in str(seen)
        program.stop()
