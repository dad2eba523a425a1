"""What errors say of themselves."""

from typing import Any

import pytest

import acp_server
from acp_server.errors import AgentExited, InvalidParams, MalformedResponse, ResourceNotFound, RpcError


def test_an_error_says_what_its_data_names_and_nothing_else_of_it() -> None:
    error = ResourceNotFound(data={"path": "/project/no\nsuch", "token": "secret"})
    assert str(error) == "Resource not found (-32002) (path: /project/no\\nsuch)"
    problems = [{"path": "modeId", "message": "is not one of this session's modes"}]
    error = InvalidParams(data={"problems": problems})
    assert str(error) == "Invalid params (-32602) (problems: modeId: is not one of this session's modes)"
    assert str(RpcError("no", code=-32001, data={"token": "secret"})) == "no (-32001)"


def test_what_is_written_of_an_error_is_as_it_was() -> None:
    wire = {"code": -32002, "message": "a\x1bb\nc", "data": {"path": "/x"}}
    assert RpcError.from_wire(wire).to_wire() == wire
    assert RpcError.from_wire(wire).message == "a\x1bb\nc"


def test_the_text_of_a_peers_error_neither_steers_a_terminal_nor_forges_an_entry_of_a_log() -> None:
    error = RpcError.from_wire({"code": -1, "message": "gone\x1b[2J\nINFO all is well", "data": {"uri": "\x1b[1m"}})
    assert str(error) == "gone\\x1b[2J\n    INFO all is well (-1) (uri: \\x1b[1m)"
    assert str(MalformedResponse("a", "b\nINFO")) == "a: malformed response: b\n    INFO"


def test_what_an_agent_logged_once_is_not_taken_for_the_reason_why_it_ended() -> None:
    error = AgentExited("session/prompt", 1, "the tool failed\n\x1b[31mTraceback")
    assert str(error) == (
        "the agent exited with status 1; it ended before it answered session/prompt; the end of its log:\n"
        "    the tool failed\n    \\x1b[31mTraceback"
    )
    assert error.stderr == "the tool failed\n\x1b[31mTraceback"


@pytest.mark.parametrize("message", [-31001, b"no", {"code": 1}, ValueError("no")])
def test_a_message_that_is_not_text_is_refused(message: Any) -> None:
    with pytest.raises(TypeError, match=r"the message of an error must be a string.* pass an error code as code="):
        RpcError(message)
    with pytest.raises(TypeError, match="pass an error code as code="):
        InvalidParams(message, data=1)


@pytest.mark.parametrize("code", ["-31001", 1.5, True])
def test_a_code_that_is_no_whole_number_is_refused(code: Any) -> None:
    with pytest.raises(TypeError, match="the code of an error must be an int"):
        RpcError("no", code=code)


def test_the_errors_of_a_request_are_at_the_top_of_the_package() -> None:
    assert acp_server.InternalError().to_wire() == {"code": -32603, "message": "Internal error"}
    assert acp_server.InvalidRequest().to_wire() == {"code": -32600, "message": "Invalid request"}
    assert acp_server.MethodNotFound().to_wire() == {"code": -32601, "message": "Method not found"}
