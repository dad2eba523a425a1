"""Sessions of version 2 through the calls of version 1: what is sent, and what the program gets."""

from typing import Any

import anyio
import pytest

from acp_server.client import Handlers, allow_once
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import CapabilityMissing, RpcError
from acp_server.schema import McpServerStdio, RequestPermissionRequest
from tests.client.talking import SESSION, Scripted, talking
from tests.client.v2.talking import idle, prompted_2, said, state, talking_2, text, whole
from tests.schema.v2.fragments import COMMANDS

pytestmark = pytest.mark.anyio

MODE = {"type": "select", "configId": "m", "name": "M", "currentValue": "a", "options": [{"value": "a", "name": "A"}]}
MODE_OPTION = {**MODE, "category": "mode"}
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


async def test_a_new_session_has_its_options_and_commands() -> None:
    heard: list[Any] = []
    async with talking_2() as (agent, peer):
        peer.answer("session/new", {"sessionId": "s", "configOptions": [MODE], "availableCommands": COMMANDS})
        server = McpServerStdio(name="m", command="/m", args=[], env=[])
        session = await agent.new_session("/project", mcp_servers=[server], on_update=heard.append)
        (request,) = peer.all("session/new")
        sent = {"type": "stdio", "name": "m", "command": "/m", "args": [], "env": []}
        assert request["params"] == {"cwd": "/project", "mcpServers": [sent]}
        assert [option.to_wire()["id"] for option in session.config_options] == ["m"]
        assert [command.name for command in session.available_commands] == [command["name"] for command in COMMANDS]
        assert [update.session_update for update in heard] == ["available_commands_update"]


async def test_loading_resumes_with_a_replay_of_everything_before_it_returns() -> None:
    heard: list[Any] = []
    async with talking_2() as (agent, peer), anyio.create_task_group() as group:

        async def replay() -> None:
            request = await peer.expect_request("session/resume")
            assert request["params"]["replayFrom"] == {"type": "start"}
            await peer.update(whole("q", message="u1", by="user_message"), whole("a"), state("idle"), session="old")
            await peer.respond(request, {"configOptions": [MODE], "availableCommands": []})

        group.start_soon(replay)
        session = await agent.load_session("old", "/project", on_update=lambda one: heard.append(one.to_wire()))
        question, answer = said("q", "u1", "user_message"), said("a")
        assert heard[:3] == [question, answer, state("idle")]
        assert agent.sessions == {"old": session}


async def test_resuming_replays_nothing() -> None:
    async with talking_2() as (agent, peer):
        peer.answer("session/resume", {})
        await agent.resume_session("old", "/project")
        (request,) = peer.all("session/resume")
        assert "replayFrom" not in request["params"]


async def test_a_session_that_is_known_before_is_told_which_work_goes_on() -> None:
    """A prompt of a session that was busy when it was taken up is not ended by the end of that work."""
    async with talking_2() as (agent, peer), anyio.create_task_group() as group:

        async def answer() -> None:
            request = await peer.expect_request("session/resume")
            await peer.update(state("running"), session="old")
            await peer.respond(request, {})

        group.start_soon(answer)
        session = await agent.resume_session("old", "/project")
        async with session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            await peer.update(idle("refusal"), session="old")
            await peer.respond(prompt, {"messageId": "u1"})
            await peer.update(state("running"), idle(), session="old")
            assert (await turn.wait()).stop_reason == "end_turn"


async def test_settings_lists_log_in_and_the_end_of_sessions_are_sent_as_version_2_has_them() -> None:
    async with talking_2() as (agent, peer):
        session = await agent.new_session("/project")
        peer.answer("session/set_config_option", {"configOptions": [{**MODE, "currentValue": "b"}]})
        peer.answer("session/list", {"sessions": [{"sessionId": SESSION, "cwd": "/project"}], "nextCursor": "2"})
        for method in ("session/close", "session/delete", "auth/login", "auth/logout"):
            peer.answer(method, {})
        (option,) = (await session.set_config_option("m", "b")).config_options
        assert option.to_wire()["currentValue"] == "b"
        await session.set_config_option("m", True)
        page = await agent.list_sessions("/project", "1")
        assert ([info.session_id for info in page.sessions], page.next_cursor) == ([SESSION], "2")
        await agent.authenticate("key")
        await agent.logout()
        await session.close()
        await agent.delete_session("other")
        sent = {message["method"]: message["params"] for message in peer.received if "params" in message}
        one, other = (message["params"] for message in peer.all("session/set_config_option"))
        assert one == {"sessionId": SESSION, "configId": "m", "value": "b", "type": "id"}
        assert other == {"sessionId": SESSION, "configId": "m", "value": True, "type": "boolean"}
        assert sent["session/list"] == {"cwd": "/project", "cursor": "1"}
        assert sent["auth/login"] == {"methodId": "key"}
        assert sent["auth/logout"] == {}
        assert sent["session/close"] == {"sessionId": SESSION}
        assert sent["session/delete"] == {"sessionId": "other"}


async def test_an_error_of_the_agent_is_raised_as_it_came() -> None:
    async with talking_2() as (agent, peer), anyio.create_task_group() as group:
        group.start_soon(_refuse, peer)
        with pytest.raises(RpcError) as raised:
            await agent.load_session("lost", "/project")
        assert (raised.value.code, raised.value.data) == (-32002, {"sessionId": "lost"})


async def _refuse(peer: Scripted) -> None:
    request = await peer.expect_request("session/resume")
    error = {"code": -32002, "message": "no such session", "data": {"sessionId": "lost"}}
    await peer.send({"jsonrpc": "2.0", "id": request["id"], "error": error})


def question(**more: Any) -> dict[str, Any]:
    return {"sessionId": SESSION, "title": "May I?", "options": OPTIONS, **more}


@pytest.mark.parametrize(
    ("subject", "title", "shown"),
    [
        ({"subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "rm"}}}, "rm", []),
        (
            {"subject": {"type": "tool_call", "toolCall": {"toolCallId": "c"}}, "description": "Or not?"},
            None,
            ["Or not?"],
        ),
        (
            {"subject": {"type": "command", "command": "ls -a", "cwd": "/w", "toolCallId": "c"}},
            None,
            ["ls -a\n(in /w)"],
        ),
        ({"subject": {"type": "_dance"}, "description": "Or not?"}, None, ["Or not?"]),
        ({}, None, []),
    ],
    ids=["tool call", "without a title", "command", "unknown", "nothing"],
)
async def test_a_question_of_any_subject_is_asked_about_a_tool_call(
    subject: dict[str, Any], title: str | None, shown: list[str]
) -> None:
    asked: list[RequestPermissionRequest] = []

    async def ask(request: RequestPermissionRequest) -> PermissionAnswer:
        asked.append(request)
        return request.options[0]

    async with talking_2(Handlers(permission=ask)) as (_, peer):
        assert await peer.result("session/request_permission", question(**subject)) == YES
    call = asked[0].tool_call
    assert call.title == (title or "May I?")
    assert (call.tool_call_id == "c") == ("toolCallId" in str(subject))
    assert call.tool_call_id
    assert [item.to_wire()["content"]["text"] for item in call.content or []] == shown


@pytest.mark.parametrize(
    "wrong", [{"options": []}, {"options": OPTIONS * 2}, {"title": None}, {"subject": {"type": "command"}}]
)
async def test_a_question_that_is_not_as_version_2_has_it_is_refused(wrong: dict[str, Any]) -> None:
    async with talking_2(Handlers(permission=allow_once)) as (_, peer):
        response = await peer.response(await peer.request("session/request_permission", question(**wrong)))
        assert response["error"]["code"] == -32602


async def test_a_question_that_is_open_at_the_cancel_is_answered_and_so_is_one_behind_it() -> None:
    asked = anyio.Event()

    async def hesitate(_request: RequestPermissionRequest) -> PermissionAnswer:
        asked.set()
        await anyio.sleep_forever()

    async with prompted_2(Handlers(permission=hesitate)) as (_, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(state("running"), state("requires_action"))
        id = await peer.request("session/request_permission", question())
        await asked.wait()
        turn.cancel()
        assert (await peer.response(id))["result"] == CANCELLED
        assert await peer.result("session/request_permission", question()) == CANCELLED
        await peer.update(idle("cancelled"))
        assert (await turn.wait()).stop_reason == "cancelled"


async def test_ask_gives_the_text_of_whole_messages_and_of_pieces() -> None:
    async with talking_2() as (agent, peer), anyio.create_task_group() as group:
        session = await agent.new_session("/project")

        async def answer() -> None:
            prompt = await peer.expect_request("session/prompt")
            assert prompt["params"] == {"sessionId": SESSION, "prompt": [text("hello")]}
            await peer.respond(prompt, {"messageId": "u1"})
            await peer.update(state("running"), said("Hel"), whole("Hello"), whole(" you", message="a2"), idle())

        group.start_soon(answer)
        assert await session.ask("hello") == "Hello you"


async def test_the_option_of_the_category_mode_is_the_mode_of_the_session() -> None:
    values = [{"value": "b", "name": "B", "description": "Be."}]
    grouped = [{"groupId": "g", "name": "G", "options": values}]
    option = {**MODE, "configId": "m2", "category": "mode", "currentValue": "b", "options": grouped}
    heard: list[Any] = []
    async with talking_2() as (agent, peer):
        peer.answer("session/new", {"sessionId": SESSION, "configOptions": [MODE, option]})
        session = await agent.new_session("/project", on_update=lambda update: heard.append(update.to_wire()))
        assert session.modes is not None
        assert [(mode.id, mode.name, mode.description) for mode in session.modes.available_modes] == [("b", "B", "Be.")]
        changed = {**option, "currentValue": "c"}
        peer.answer("session/set_config_option", {"configOptions": [changed]})
        await session.set_mode("c")
        (request,) = peer.all("session/set_config_option")
        assert request["params"] == {"sessionId": SESSION, "type": "id", "configId": "m2", "value": "c"}
        assert (session.modes.current_mode_id, len(session.config_options)) == ("c", 1)
        peer.answer("session/set_config_option", {"configOptions": [option]})
        await session.set_config_option("m2", "b")
        assert session.modes.current_mode_id == "b"
        await peer.update({"sessionUpdate": "config_option_update", "configOptions": [changed]})
        await peer.barrier()
        assert session.modes.current_mode_id == "c"
        assert [update["sessionUpdate"] for update in heard] == ["config_option_update", "current_mode_update"]


async def test_without_such_an_option_there_is_no_mode_to_set() -> None:
    async with talking_2() as (agent, _):
        session = await agent.new_session("/project")
        assert session.modes is None
        with pytest.raises(CapabilityMissing, match="category mode"):
            await session.set_mode("a")


@pytest.mark.parametrize(
    ("call", "method", "key"),
    [
        ("cancel_tool_call", "tool_call/cancel", "toolCallId"),
        ("cancel_terminal", "terminal/cancel", "terminalId"),
    ],
)
async def test_one_tool_call_and_one_terminal_can_be_cancelled_on_version_2_alone(
    call: str, method: str, key: str
) -> None:
    async with talking_2() as (agent, peer):
        session = await agent.new_session("/project")
        peer.answer(method, {})
        await getattr(session, call)("t1")
        (request,) = peer.all(method)
        assert request["params"] == {"sessionId": SESSION, key: "t1"}
    async with talking() as (agent, _):
        session = await agent.new_session("/project")
        with pytest.raises(CapabilityMissing, match="version 2"):
            await getattr(session, call)("t1")


async def test_a_request_of_ones_own_opens_a_session_that_has_its_options_and_commands() -> None:
    heard: list[Any] = []
    async with talking_2() as (agent, peer):
        answer = {"sessionId": "child", "configOptions": [MODE], "availableCommands": COMMANDS, "models": "m"}
        peer.answer("session/fork", answer)
        session = await agent.open_session("session/fork", {"sessionId": "s", "cwd": "/p"}, on_update=heard.append)
        assert [option.to_wire()["id"] for option in session.config_options] == ["m"]
        assert [command.name for command in session.available_commands] == [command["name"] for command in COMMANDS]
        assert (session.id, session.response.model_extra) == ("child", {"models": "m"})
        assert [update.session_update for update in heard] == ["available_commands_update"]
        assert peer.all("session/fork")[0]["params"] == {"sessionId": "s", "cwd": "/p"}


async def test_what_a_request_of_version_2_is_answered_with_comes_back_whole() -> None:
    async with talking_2() as (agent, peer):
        peer.answer("session/new", {"sessionId": SESSION, "configOptions": [MODE_OPTION], "_meta": {"a": 1}})
        peer.answer("session/set_config_option", {"configOptions": [MODE_OPTION], "_meta": {"b": 2}, "more": 4})
        session = await agent.new_session("/project")
        assert session.response.meta == {"a": 1}
        entered = await session.set_mode("a", meta={"c": 3})
        assert (entered.meta, entered.model_extra) == ({"b": 2}, {"more": 4})
        assert peer.all("session/set_config_option")[-1]["params"]["_meta"] == {"c": 3}
