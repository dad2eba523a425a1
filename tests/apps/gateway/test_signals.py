"""What signals do to a gateway, and to agents that do not want to end with it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from .heard import last
from .serving import PATIENCE, TOKEN, Server, ask, client, cozepy, gone, serving, until

AGENT = str(Path(__file__).parent / "agents" / "wayward.py")


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[Server]:
    """A gateway whose agent ends by force only."""
    (tmp_path / "asked").touch()
    with serving(tmp_path, agent=[sys.executable, AGENT, str(tmp_path / "asked"), "deaf"]) as server:
        yield server


def hang(coze: Any, server: Server) -> Iterator[cozepy.ChatEvent]:
    """The events of a chat that does not end by itself, from when its agent is there."""
    events = iter(coze.chat.stream(**ask("hang")))
    assert next(events).event == cozepy.ChatEventType.CONVERSATION_CHAT_CREATED
    until(lambda: "does hang" in (server.log.parent / "asked").read_text())
    return events


def ended(server: Server, agents: list[Any], status: int) -> str:
    """See it end with this exit status, and its agents with it; what it has written at last."""
    server.killed = True
    assert server.process.wait(PATIENCE) == status
    gone(agents)
    assert server.process.stderr is not None
    return server.process.stderr.read().decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_chats_the_agents_and_then_the_gateway(deaf: Server, number: signal.Signals) -> None:
    with client(deaf) as coze:
        events = hang(coze, deaf)
        agents = deaf.agents()
        deaf.process.send_signal(number)
        last = [event.chat for event in events if event.chat is not None][-1]
        assert last.last_error == cozepy.ChatError(code=5000, msg="the gateway was stopped")
    assert ended(deaf, agents, 130 if number == signal.SIGINT else -number) == ""


def test_a_gateway_ends_with_the_terminal_that_it_was_started_from(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    words = [sys.executable, "-m", "acp_server", "gateway", "--port", "0"]
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *words], stdin=terminal, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    said = process.stderr
    assert said is not None
    try:
        until(lambda: said.readline().startswith("Listening"))
        (gateway,) = psutil.Process(process.pid).children() or [psutil.Process(process.pid)]
        os.close(terminal)
        os.close(controller)
        gone([gateway])
    finally:
        process.kill()
        process.wait()
        said.close()


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway that waits for its chats."""
    with serving(tmp_path_factory.mktemp("patient"), "--drain", "60") as server:
        yield server


def test_at_the_end_the_chats_that_run_come_to_theirs_and_there_are_no_new_ones(patient: Server) -> None:
    with client(patient) as coze, httpx.Client(base_url=patient.url, timeout=PATIENCE) as http:
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        events = iter(coze.chat.stream(**ask("slowly 200")))
        next(events)
        assert http.get("/readyz").status_code == 200
        patient.process.send_signal(signal.SIGTERM)
        until(lambda: http.get("/readyz").status_code == 503)
        assert http.get("/healthz").status_code == 200
        body = {"bot_id": "1", "user_id": "u", "additional_messages": [{"role": "user", "content": "echo x"}]}
        refused = http.post("/v3/chat", json=body)
        assert (refused.status_code, refused.json()["code"]) == (503, 4009)
        assert 0 < int(refused.headers["Retry-After"]) <= 60
        assert last(list(events)).status == cozepy.ChatStatus.COMPLETED
    assert ended(patient, patient.agents(), -signal.SIGTERM) == ""


def test_a_chat_that_does_not_end_in_its_time_fails(tmp_path: Path) -> None:
    with serving(tmp_path, "--drain", "0.2") as server, client(server) as coze:
        events = iter(coze.chat.stream(**ask("hang")))
        next(events)
        server.process.send_signal(signal.SIGTERM)
        assert last(list(events)).last_error == cozepy.ChatError(code=5000, msg="the gateway was stopped")
        assert ended(server, [], -signal.SIGTERM) == ""


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_waits_for_no_chat(tmp_path: Path, second: signal.Signals) -> None:
    with serving(tmp_path, "--drain", "60") as server, client(server) as coze:
        chat = coze.chat.create(**ask("hang"))
        server.ear.wait("begin hang")
        agents = server.agents()
        server.process.send_signal(signal.SIGTERM)
        ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
        until(lambda: httpx.get(f"{server.url}/readyz").status_code == 503)
        assert coze.chat.retrieve(**ids).status == cozepy.ChatStatus.IN_PROGRESS
        server.process.send_signal(second)
        # As it was told first.
        assert ended(server, agents, -signal.SIGTERM) == ""


def test_a_gateway_that_is_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with serving(tmp_path) as server, client(server) as coze:
            server.process.send_signal(signal.SIGHUP)
            assert coze.chat.create_and_poll(**ask("echo x")).chat.status == cozepy.ChatStatus.COMPLETED
            server.process.send_signal(signal.SIGHUP)
            assert coze.chat.create_and_poll(**ask("echo x")).chat.status == cozepy.ChatStatus.COMPLETED
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("when", ["shutting down", "waiting for the application"])
def test_a_second_ctrl_c_ends_it_at_once_and_leaves_nothing(deaf: Server, when: str) -> None:
    with client(deaf) as coze:
        hang(coze, deaf)
        agents = deaf.agents()
        deaf.process.send_signal(signal.SIGINT)
        until(lambda: when in deaf.log.read_text())
        began = time.monotonic()
        deaf.process.send_signal(signal.SIGINT)
        assert ended(deaf, agents, 130) == ""
        # It would wait three seconds for the agent.
        assert time.monotonic() - began < 2


def test_two_ctrl_c_in_one_moment_leave_nothing(deaf: Server) -> None:
    with client(deaf) as coze:
        hang(coze, deaf)
        agents = deaf.agents()
        deaf.process.send_signal(signal.SIGINT)
        time.sleep(0.01)
        deaf.process.send_signal(signal.SIGINT)
        assert ended(deaf, agents, 130) == ""


def test_a_second_ctrl_c_waits_for_no_client(tmp_path: Path) -> None:
    with serving(tmp_path) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        query = {"role": "user", "content": "heap", "content_type": "text"}
        body = json.dumps({"bot_id": "1", "user_id": "u", "stream": True, "additional_messages": [query]})
        head = f"POST /v3/chat HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {TOKEN}\r\n"
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        server.ear.wait("begin heap")
        # Into the middle of the large event.
        heard = 0
        while heard < 100_000:
            heard += len(slow.recv(50_000))
        agents = server.agents()
        server.process.send_signal(signal.SIGINT)
        until(lambda: "connections are still open" in server.log.read_text())
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert ended(server, agents, 130) == ""
        # It would wait five seconds for the client.
        assert time.monotonic() - began < 3
