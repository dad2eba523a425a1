"""The gateway on its socket: how many clients find a place, and the answer to what is not HTTP."""

import http.client
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.server import number_of_places
from tests.http.test_listener import soft_limit

from .serving import PATIENCE, TOKEN, Server, serving, until


def test_the_process_is_allowed_the_descriptors_that_its_limits_take() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with soft_limit(256):
        assert number_of_places(GatewayLimits(connections=300, chats=10)) == 300
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 300 + 4 * 10
        # A quarter is left to the agents where there are not enough.
        assert number_of_places(GatewayLimits(connections=10 * hard)) in range(hard // 2, hard - hard // 5)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("small"), "--connections", "8") as server:
        yield server


def test_a_crowd_that_says_nothing_keeps_no_client_out_and_fills_no_log(small: Server) -> None:
    address = ("127.0.0.1", int(small.url.rpartition(":")[2]))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with ExitStack() as opened:
        known = http.client.HTTPConnection(*address, timeout=PATIENCE)
        opened.callback(known.close)
        for number in range(60):
            opened.enter_context(socket.create_connection(address))
            if number % 20 == 0:
                # The same connection all the time: it has shown a token.
                known.request("GET", "/v1/conversations?bot_id=1", headers=headers)
                assert known.getresponse().read().startswith(b'{"code":0')
        late = http.client.HTTPConnection(*address, timeout=PATIENCE)
        opened.callback(late.close)
        late.request("GET", "/v1/conversations?bot_id=1", headers=headers)
        assert late.getresponse().read().startswith(b'{"code":0')
    until(lambda: "the limit of 8 connections is reached" in small.log.read_text())
    assert small.log.read_text().count("the limit of 8 connections is reached") == 1


def test_what_is_not_http_is_told_so_in_the_envelope_of_the_api(small: Server) -> None:
    with socket.create_connection(("127.0.0.1", int(small.url.rpartition(":")[2])), timeout=PATIENCE) as stream:
        stream.sendall(b"GARBAGE\r\n\r\n")
        received = b"".join(iter(lambda: stream.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    answer: dict[str, Any] = json.loads(body)
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/json" in head
    assert answer["code"] == 4000
    logid = answer["detail"]["logid"]
    assert f"x-tt-logid: {logid}".encode() in head
    assert small.log.read_text().count(f"logid {logid}") == 1
