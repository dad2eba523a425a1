"""Bad requests get the documented code, in the envelope, and never a fault: by bare HTTP and bare sockets."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .serving import PATIENCE, TOKEN, Server, ask, cozepy, until

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
CHAT = {"bot_id": "1", "user_id": "u"}
QUERY = {"role": "user", "content": "echo x", "content_type": "text"}
UNKNOWN = ["", "0", "99999999999999999999999", "no id", "\uff11\uff12", "-1", "' OR 1=1 --", "\0", "\ud800"]


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=HEADERS, timeout=PATIENCE) as http:
        yield http


def envelope(response: httpx.Response) -> dict[str, Any]:
    """The answer, checked for what every answer has."""
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert not response.content.endswith(b"\n")
    body = response.json()
    assert body["detail"]["logid"] == response.headers["x-tt-logid"]
    return body


def code(response: httpx.Response) -> int:
    body = envelope(response)
    assert isinstance(body["msg"], str)
    assert (body["code"] > 0) == bool(body["msg"])
    assert ("data" in body) == (body["code"] == 0)
    return body["code"]


def post(http: httpx.Client, path: str, body: Any, **params: str) -> int:
    # Escaped by hand: the client refuses halves of surrogate pairs.
    headers = {"content-type": "application/json"}
    return code(http.post(path, content=json.dumps(body), params=params, headers=headers))


# Bodies


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"",
        b"null",
        b"[]",
        b"7",
        b'"x"',
        b"\xff\xfe{}",
        b'{"bot_id": NaN}',
        b"[" * 100_000,
        b'{"bot_id":"1","user_id":"u","custom_variables":' + b'{"x":' * 500 + b"1" + b"}" * 501,
        b'{"a":' * 100_000,
        b"{}{}",
        b"\0",
    ],
    ids=lambda text: repr(text[:12]),
)
@pytest.mark.parametrize("path", ["/v3/chat", "/v3/chat/cancel", "/v1/conversation/create"])
def test_a_body_that_is_no_json_object_is_a_bad_parameter(http: httpx.Client, path: str, text: bytes) -> None:
    if path == "/v1/conversation/create" and text in (b"", b"null"):
        assert code(http.post(path, content=text)) == 0
    else:
        assert code(http.post(path, content=text)) == 4000


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"bot_id": None}, 4000),
        ({"bot_id": 7}, 4000),
        ({"bot_id": ""}, 4000),
        ({"bot_id": "x" * 65}, 4000),
        ({"bot_id": "\ud800"}, 4000),
        ({"user_id": None}, 4000),
        ({"user_id": {}}, 4000),
        ({"additional_messages": "x"}, 4000),
        ({"additional_messages": [None]}, 4000),
        ({"additional_messages": [{"role": "system", "content": "x"}]}, 4000),
        ({"additional_messages": [{**QUERY, "content": 7}]}, 4000),
        ({"additional_messages": [{**QUERY, "role": "assistant"}]}, 4000),
        ({"additional_messages": []}, 4000),
        ({"additional_messages": [QUERY] * 101}, 4004),
        ({"additional_messages": [{**QUERY, "content_type": "audio"}]}, 4005),
        ({"additional_messages": [{**QUERY, "content": ""}]}, 4005),
        ({"additional_messages": [{"role": "user"}]}, 4005),
        ({"additional_messages": [{"role": "assistant", "content": ""}, QUERY]}, 0),
        ({"additional_messages": [{**QUERY, "content_type": "card"}]}, 0),
        ({"additional_messages": [{**QUERY, "content_type": "object_string"}]}, 4005),
        ({"additional_messages": [{**QUERY, "content_type": "object_string", "content": "[]"}]}, 4005),
        ({"additional_messages": [{**QUERY, "content_type": "object_string", "content": "[7]"}]}, 4005),
        ({"additional_messages": [{**QUERY, "content_type": "object_string", "content": '[{"type":"image"}]'}]}, 4005),
        (
            {
                "additional_messages": [
                    {
                        **QUERY,
                        "content_type": "object_string",
                        "content": '[{"type":"image","file_url":"https://example.org/x.png"}]',
                    }
                ]
            },
            4005,
        ),
        ({"additional_messages": [{**QUERY, "meta_data": {"": "x"}}]}, 4003),
        ({"stream": "yes"}, 4000),
        ({"stream": 1}, 4000),
        ({"auto_save_history": False}, 4007),
        ({"meta_data": []}, 4000),
        ({"meta_data": {"a": 1}}, 4000),
        ({"meta_data": {str(n): "x" for n in range(17)}}, 4003),
        ({"meta_data": {"k" * 65: "x"}}, 4003),
        ({"meta_data": {"k": "x" * 513}}, 4003),
        ({"meta_data": {"k": ""}}, 4003),
        ({"meta_data": {str(n): "x" * 512 for n in range(16)}}, 0),
        ({"stream": None, "meta_data": None, "custom_variables": None, "extra_params": None}, 0),
        ({"additional_messages": [{**QUERY, "meta_data": None, "id": None, "chat_id": None, "type": None}]}, 0),
        ({"additional_messages": [{**QUERY, "content": "echo \ud800 \0 \U0001f600"}]}, 0),
        ({"unheard_of": {"x": [1, 2]}}, 0),
        ({"additional_messages": [QUERY] * 100}, 0),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_a_chat_is_begun_or_refused_by_its_body(http: httpx.Client, change: dict[str, Any], expected: int) -> None:
    assert post(http, "/v3/chat", {**CHAT, "additional_messages": [QUERY], **change}) == expected


def test_half_of_an_emoji_is_replaced_and_said_on(http: httpx.Client, coze: Any) -> None:
    body = json.dumps({**CHAT, "additional_messages": [{**QUERY, "content": "echo \ud83d \0 \U0001f600"}]})
    chat = envelope(http.post("/v3/chat", content=body))["data"]
    ids = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
    until(lambda: coze.chat.retrieve(**ids).status == cozepy.ChatStatus.COMPLETED)
    assert coze.chat.messages.list(**ids)[0].content == "\N{REPLACEMENT CHARACTER} \0 \U0001f600"


def test_a_text_and_files_reach_the_agent(coze: Any) -> None:
    parts = [
        {"type": "text", "text": "recall"},
        {"type": "file", "file_url": "https://example.org/a.txt", "file_id": None, "name": "a.txt"},
    ]
    content = json.dumps(parts[::-1])
    message = cozepy.Message(
        role=cozepy.MessageRole.USER,
        content=content,
        content_type=cozepy.MessageContentType.OBJECT_STRING,
        type=cozepy.MessageType.QUESTION,
    )
    poll = coze.chat.create_and_poll(bot_id="1", user_id="u", additional_messages=[message])
    assert poll.messages is not None
    assert poll.messages[0].content == "recall"


@pytest.mark.parametrize("header", [True, False])
def test_a_body_that_is_too_large_is_refused_and_not_read(server: Server, header: bool) -> None:
    size = 5 * 1024 * 1024

    def body() -> Iterator[bytes]:
        for _ in range(size // 65536):
            yield b" " * 65536

    with httpx.Client(base_url=server.url, headers=HEADERS, timeout=PATIENCE) as http:
        response = http.post("/v3/chat", content=b" " * size if header else body())
        assert code(response) == 4000
        assert "longer" in response.json()["msg"]
        assert code(http.get("/v1/conversations")) == 0


# Ids and parameters


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_unknown_ids_get_the_code_of_what_they_should_name(http: httpx.Client, unknown: str) -> None:
    missing = 4000 if not unknown else 0
    assert post(http, "/v3/chat/cancel", {"conversation_id": unknown, "chat_id": unknown}) == (missing or 4001)
    if unknown in ("", "\ud800"):
        return
    ids = {"conversation_id": unknown, "chat_id": unknown}
    outputs = {"tool_outputs": [{"tool_call_id": "1", "output": "x"}]}
    assert code(http.get("/v3/chat/retrieve", params=ids)) == 4001
    assert code(http.post("/v3/chat/retrieve", params=ids)) == 4001
    assert code(http.get("/v3/chat/message/list", params=ids)) == 4001
    assert post(http, "/v3/chat/submit_tool_outputs", outputs, **ids) == 4001
    ids = {"conversation_id": unknown, "message_id": unknown}
    chat = {**CHAT, "additional_messages": [QUERY]}
    assert post(http, "/v3/chat", chat, conversation_id=unknown) == 4002
    assert code(http.get("/v1/conversation/retrieve", params=ids)) == 4002
    assert post(http, "/v1/conversation/message/list", {}, **ids) == 4002
    assert post(http, "/v1/conversation/message/create", QUERY, **ids) == 4002
    assert code(http.get("/v1/conversation/message/retrieve", params=ids)) == 4002
    assert code(http.post("/v1/conversation/message/delete", params=ids)) == 4002
    if unknown != "' OR 1=1 --":
        return
    path = "/v1/conversations/%27%20OR%201"
    assert code(http.post(f"{path}/clear")) == 4002
    assert code(http.delete(path)) == 4002
    assert code(http.put(path, json={"name": "x"})) == 4002


def test_a_chat_is_found_only_in_its_own_conversation(coze: Any, http: httpx.Client) -> None:
    chat = coze.chat.create(**ask("echo x"))
    other = coze.conversations.create()
    ids = {"conversation_id": other.id, "chat_id": chat.id}
    assert code(http.get("/v3/chat/retrieve", params=ids)) == 4001
    assert post(http, "/v3/chat/cancel", ids) == 4001


def test_pages_have_bounds(http: httpx.Client) -> None:
    for params in ("page_num=0", "page_num=x", "page_num=99999999999999999999", "page_size=51", "page_size=-1"):
        assert code(http.get(f"/v1/conversations?{params}")) == 4000
    made = envelope(http.post("/v1/conversation/create"))["data"]["id"]
    for body in ({"limit": 0}, {"limit": 51}, {"limit": "x"}, {"order": "up"}, {"after_id": 7}):
        assert post(http, "/v1/conversation/message/list", body, conversation_id=made) == 4000
    for body in ({"after_id": "1"}, {"before_id": "no id"}):
        assert post(http, "/v1/conversation/message/list", body, conversation_id=made) == 4005
    empty = http.post("/v1/conversation/message/list", params={"conversation_id": made}, json={"chat_id": "\0é"})
    assert envelope(empty)["data"] == []
    assert [empty.json()[key] for key in ("first_id", "last_id", "has_more")] == ["", "", False]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 0),
        ({"role": "assistant", "type": "answer"}, 0),
        ({"type": "tool_response"}, 4005),
        ({"type": "unheard of"}, 4005),
        ({"content": ""}, 4005),
        ({"content": None}, 4005),
        ({"content": 7}, 4000),
        ({"role": "system"}, 4000),
    ],
    ids=str,
)
def test_a_message_is_inserted_or_refused_by_its_body(
    http: httpx.Client, change: dict[str, Any], expected: int
) -> None:
    made = envelope(http.post("/v1/conversation/create"))["data"]["id"]
    assert post(http, "/v1/conversation/message/create", {**QUERY, **change}, conversation_id=made) == expected
    listed = envelope(http.post("/v1/conversation/message/list", params={"conversation_id": made}))["data"]
    assert len(listed) == (expected == 0)


def test_a_message_keeps_its_content_when_it_would_be_left_with_none(http: httpx.Client) -> None:
    made = envelope(http.post("/v1/conversation/create", json={"messages": [QUERY]}))["data"]["id"]
    listed = envelope(http.post("/v1/conversation/message/list", params={"conversation_id": made}))["data"]
    where = {"conversation_id": made, "message_id": listed[0]["id"]}
    assert post(http, "/v1/conversation/message/modify", {"content": ""}, **where) == 4005
    assert envelope(http.get("/v1/conversation/message/retrieve", params=where))["data"]["content"] == "echo x"


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"name": null}'])
def test_a_conversation_keeps_its_name_when_it_is_given_none(http: httpx.Client, body: bytes) -> None:
    made = envelope(http.post("/v1/conversation/create", json={"name": "mine"}))["data"]["id"]
    renamed = envelope(http.put(f"/v1/conversations/{made}", content=body))["data"]
    assert (renamed["id"], renamed["name"]) == (made, "mine")
    assert envelope(http.put(f"/v1/conversations/{made}", json={"name": ""}))["data"]["name"] == ""


@pytest.mark.parametrize("body", [[], "x", 7, {**CHAT, "additional_messages": [[]]}], ids=str)
def test_who_sends_no_object_is_told_so_in_the_words_of_the_api(http: httpx.Client, body: Any) -> None:
    answer = http.post("/v3/chat", json=body).json()
    assert answer["code"] == 4000
    assert answer["msg"].endswith(": has to be an object")


def test_a_call_without_a_body_needs_no_content_type(http: httpx.Client) -> None:
    conversation = envelope(http.post("/v1/conversation/create", content=b"", headers={"content-length": "0"}))
    path = f"/v1/conversations/{conversation['data']['id']}/clear"
    assert code(http.post(path, headers={"content-length": "0"})) == 0


# Who calls


@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic eDp5", f"Token {TOKEN}", "Bearer é", TOKEN])
def test_without_a_good_token_nothing_is_answered(server: Server, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode()}
    for method, path in (("POST", "/v3/chat"), ("GET", "/v1/conversations"), ("POST", "/v3/chat/cancel")):
        assert code(httpx.request(method, server.url + path, headers=headers)) == 4100  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("method", "path", "status", "expected", "allow"),
    [
        ("GET", "/", 404, 4200, None),
        ("GET", "/v3/chat", 405, 4000, "POST"),
        ("OPTIONS", "/v3/chat/retrieve", 405, 4000, "GET, HEAD, POST"),
        ("GET", "/v1/conversations/1", 405, 4000, "DELETE, PUT"),
        ("POST", "/v3/chat/", 404, 4200, None),
    ],
)
def test_what_the_api_does_not_have_is_said_in_its_envelope(
    server: Server, method: str, path: str, status: int, expected: int, allow: str | None
) -> None:
    response = httpx.request(method, server.url + path, headers=HEADERS)
    assert (response.status_code, response.json()["code"]) == (status, expected)
    assert response.json()["detail"]["logid"] == response.headers["x-tt-logid"]
    assert response.headers.get("allow") == allow
    if allow:
        assert httpx.head(server.url + path, headers=HEADERS).content == b""


# Bare sockets


def connect(server: Server) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def request(text: str, *, stream: bool = True) -> bytes:
    body = json.dumps({**CHAT, "stream": stream, "additional_messages": [{**QUERY, "content": text}]})
    head = f"POST /v3/chat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def test_who_does_not_speak_http_is_told_so_in_the_envelope(server: Server) -> None:
    with connect(server) as wire:
        wire.sendall(b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
        received = b""
        while piece := wire.recv(65536):
            received += piece
    answer = json.loads(received.partition(b"\r\n\r\n")[2])
    assert answer["code"] == 4000
    until(lambda: answer["detail"]["logid"] in server.log.read_text())


def test_a_client_that_leaves_in_the_middle_of_its_body_harms_nobody(server: Server, http: httpx.Client) -> None:
    for _ in range(5):
        with connect(server) as wire:
            wire.sendall(request("echo x")[:-10])
    assert code(http.get("/v1/conversations")) == 0


def test_the_logid_of_a_stream_is_in_the_log_when_it_begins(server: Server, http: httpx.Client) -> None:
    body = {**CHAT, "stream": True, "additional_messages": [{**QUERY, "content": "hang logged"}]}
    with http.stream("POST", "/v3/chat", json=body) as response:
        logid = response.headers["x-tt-logid"]
        # It is in the log by now, and a thread writes that to the file.
        until(lambda: logid in server.log.read_text())
        (line,) = [line for line in server.log.read_text().splitlines() if logid in line]
        assert line.endswith(f"POST /v3/chat by ada: HTTP 200, a stream begins, logid {logid}")
    until(lambda: f"ms, logid {logid}" in server.log.read_text())


def test_a_client_that_leaves_its_stream_by_force_leaves_the_chat_alone(server: Server) -> None:
    with connect(server) as wire:
        wire.sendall(request("slowly 40 forced"))
        server.ear.wait("begin slowly 40 forced")
        wire.recv(100)
        # Closed with a reset.
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    server.ear.wait("end slowly 40 forced")


def test_a_client_that_reads_nothing_is_cut_off_and_its_chat_stopped_when_it_is_too_long(server: Server) -> None:
    with connect(server) as wire:
        wire.sendall(request("flood"))
        server.ear.wait("cut flood")
        received = b""
        end = time.monotonic() + PATIENCE
        while piece := wire.recv(1 << 20):
            received = (received + piece)[-100:]
            assert time.monotonic() < end
    # Not the end of a whole stream.
    assert not received.endswith(b"0\r\n\r\n")
    assert b"event:done" not in received
    until(lambda: "reply is too long" in server.log.read_text())
