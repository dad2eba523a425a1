"""What a new process has to be told, from what has passed."""

from typing import Any

import pytest

from acp_server.apps.cli.reload.conversation import Conversation


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def answer(id: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def passed(*pairs: tuple[dict[str, Any], dict[str, Any]]) -> Conversation:
    talk = Conversation()
    for asked, answered in pairs:
        assert talk.from_client(asked) is asked
        assert not talk.is_quiet
        assert talk.from_agent(answered) is answered
        assert talk.is_quiet
    return talk


def test_sessions_are_known_with_what_opens_them_until_they_are_closed_or_deleted() -> None:
    talk = passed(
        (request(1, "session/new", cwd="/a", mcpServers=[]), answer(1, sessionId="new")),
        (request(2, "session/load", sessionId="loaded", cwd="/b"), answer(2)),
        (request(3, "session/resume", sessionId="resumed", cwd="/c"), answer(3)),
        (request(4, "session/fork", sessionId="new", cwd="/d"), answer(4, sessionId="forked")),
        (request(5, "session/close", sessionId="loaded"), answer(5)),
        (request(6, "session/delete", sessionId="resumed"), answer(6)),
        (request(7, "session/load", sessionId="refused", cwd="/"), {"jsonrpc": "2.0", "id": 7, "error": {"code": 1}}),
    )
    assert talk.sessions == {
        "new": {"sessionId": "new", "cwd": "/a", "mcpServers": []},
        "forked": {"sessionId": "forked", "cwd": "/d"},
    }


@pytest.mark.parametrize(("login", "logout"), [("authenticate", "logout"), ("auth/login", "auth/logout")])
def test_a_login_is_known_until_the_logout(login: str, logout: str) -> None:
    talk = passed((request(2, login, methodId="a"), answer(2)))
    assert talk.login
    assert talk.login.params == {"methodId": "a"}
    talk.from_client(request(3, logout))
    talk.from_agent(answer(3))
    assert talk.login is None


def test_a_member_of_a_batch_is_a_message_like_any_other() -> None:
    talk = Conversation()
    talk.from_client([request(1, "a"), request("1", "b"), {"jsonrpc": "2.0", "method": "c"}])
    talk.from_agent([answer("1")])
    assert not talk.is_quiet
    assert talk.forget_process() == ([1], [])
    assert talk.is_quiet


def test_a_turn_of_version_2_goes_on_behind_the_answer_to_its_prompt() -> None:
    def update(state: str) -> dict[str, Any]:
        change = {"sessionUpdate": "state_update", "state": state}
        return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": change}}

    talk = passed((request(1, "session/prompt", sessionId="s"), answer(1)))
    for state in "running", "requires_action", "a state of tomorrow":
        talk.from_agent(update(state))
        assert not talk.is_quiet
    talk.from_agent(update("idle"))
    assert talk.is_quiet


def test_questions_of_the_agent_have_ids_of_their_own_and_their_answers_the_agents() -> None:
    talk = Conversation()
    first = talk.from_agent(request(1, "fs/read_text_file"))
    talk.forget_process()
    second = talk.from_agent(request(1, "fs/read_text_file"))
    assert first["id"] != second["id"]
    assert talk.from_client(answer(first["id"])) is None
    withdrawal = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}
    assert talk.from_agent(withdrawal)["params"] == {"requestId": second["id"]}
    assert talk.from_client(answer(second["id"], content="x")) == answer(1, content="x")
    assert talk.from_agent(withdrawal) is None


def test_a_question_that_the_agent_has_withdrawn_is_not_left_open_by_the_end_of_its_process() -> None:
    talk = Conversation()
    withdrawn, left = (talk.from_agent(request(id, "fs/read_text_file"))["id"] for id in (1, 2))
    talk.from_agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
    assert talk.forget_process() == ([], [left])
    # Of another process.
    again = talk.from_agent(request(1, "fs/read_text_file"))["id"]
    assert again != withdrawn
    assert talk.forget_process() == ([], [again])


@pytest.mark.parametrize(
    "value", [None, 5, [], {"id": 1}, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}}]
)
def test_what_is_no_message_passes_as_it_is(value: Any) -> None:
    talk = Conversation()
    assert talk.from_client(value) == value or value == {"id": 1}
    assert talk.from_agent(value) == value
    assert talk.is_quiet


BOTH = {"sessionCapabilities": {"resume": {}}, "loadSession": True}


@pytest.mark.parametrize(
    ("offered", "method"),
    [
        ({"protocolVersion": 1, "agentCapabilities": BOTH}, "session/resume"),
        ({"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}, "session/load"),
        ({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": None}}, None),
        ({"protocolVersion": 1}, None),
        ({"protocolVersion": 2, "capabilities": {"session": {}}}, "session/resume"),
    ],
)
def test_a_session_is_opened_again_as_the_agent_offers(offered: dict[str, Any], method: str | None) -> None:
    assert Conversation().reopening(offered) == method
