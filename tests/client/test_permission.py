"""Permission requests: the program's answers, and what becomes of them when their turn is cancelled."""

from typing import Any

import anyio
import pytest

from acp_server import schema
from acp_server.client import Handlers, allow_once
from acp_server.client.handlers import PermissionAnswer
from acp_server.schema import RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome
from acp_server.tasks.grace import grace
from tests.client.talking import EVERYTHING, permission, prompted, talking

pytestmark = pytest.mark.anyio

CANCELLED = {"outcome": {"outcome": "cancelled"}}
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}
NO = {"outcome": {"outcome": "selected", "optionId": "no"}}


async def dismiss(_request: RequestPermissionRequest) -> PermissionAnswer:
    return None


async def whole(_request: RequestPermissionRequest) -> PermissionAnswer:
    return RequestPermissionResponse(outcome=SelectedPermissionOutcome(option_id="yes"), meta={"by": "test"})


@pytest.mark.parametrize(
    ("handlers", "answer"),
    [
        (Handlers(), NO),
        (Handlers(permission=allow_once), YES),
        (Handlers(permission=dismiss), CANCELLED),
        (Handlers(permission=whole), YES | {"_meta": {"by": "test"}}),
    ],
    ids=["nobody to ask", "allow", "dismiss", "a whole response"],
)
async def test_the_program_decides_and_without_it_nothing_is_allowed(handlers: Handlers, answer: object) -> None:
    async with talking(handlers) as (_, peer):
        assert await peer.result("session/request_permission", permission()) == answer


@pytest.mark.parametrize("handler", [allow_once, Handlers().permission])
async def test_a_choice_that_is_not_offered_is_not_made(handler: object) -> None:
    async with talking(Handlers(permission=handler)) as (_, peer):  # pyright: ignore[reportArgumentType]
        params = permission() | {"options": [{"optionId": "x", "name": "X", "kind": "perhaps"}]}
        assert await peer.result("session/request_permission", params) == CANCELLED


class Asked:
    """A user who takes their time."""

    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.decide = anyio.Event()
        self.dismissed = anyio.Event()
        self.times = 0

    async def permission(self, request: RequestPermissionRequest) -> PermissionAnswer:
        self.times += 1
        self.entered.set()
        try:
            await self.decide.wait()
        except BaseException:
            self.dismissed.set()
            raise
        return await allow_once(request)


async def test_cancelling_the_turn_answers_its_open_permission_requests_with_cancelled() -> None:
    user = Asked()
    async with prompted(Handlers(permission=user.permission)) as (_, peer, turn, prompt):
        ids = [await peer.request("session/request_permission", permission(), id=f"p{n}") for n in range(2)]
        await user.entered.wait()
        turn.cancel()
        for id in ids:
            assert (await peer.response(id))["result"] == CANCELLED
        assert user.dismissed.is_set()
        # The agent learns of the cancel first, so it knows what the answers mean.
        methods = [message.get("method", message.get("id")) for message in peer.received]
        assert methods.index("session/cancel") < min(methods.index("p0"), methods.index("p1"))
        await peer.finish(prompt, "cancelled")
        await turn.wait()


async def test_a_permission_request_that_crosses_the_cancel_is_not_even_shown() -> None:
    user = Asked()
    async with prompted(Handlers(permission=user.permission)) as (_, peer, turn, prompt):
        turn.cancel()
        assert await peer.result("session/request_permission", permission()) == CANCELLED
        assert user.times == 0
        await peer.finish(prompt, "cancelled")
        await turn.wait()
        # The cancel belongs to that turn alone.
        user.decide.set()
        assert await peer.result("session/request_permission", permission()) == YES


async def test_a_permission_request_that_crosses_the_cancel_is_not_shown_behind_the_end_of_its_turn() -> None:
    user = Asked()
    async with prompted(Handlers(permission=user.permission)) as (_, peer, turn, prompt):
        turn.cancel()
        await peer.expect("session/cancel")
        # Both are there before the client begins with the first one.
        question = peer.new_request("session/request_permission", permission(), id="late")
        await peer.send(question, {"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "cancelled"}})
        assert (await peer.response("late"))["result"] == CANCELLED
        assert user.times == 0


@pytest.mark.parametrize("end", ["close", "delete"])
async def test_a_permission_request_in_a_session_that_was_ended_is_not_even_shown(end: str) -> None:
    user = Asked()
    user.decide.set()
    async with talking(Handlers(permission=user.permission), capabilities=EVERYTHING) as (agent, peer):
        peer.answer(f"session/{end}", {})
        session = await agent.new_session("/project")
        await getattr(session, end)()
        assert await peer.result("session/request_permission", permission()) == CANCELLED
        assert user.times == 0
        # The agent has given the id to another session.
        await agent.new_session("/project")
        assert await peer.result("session/request_permission", permission()) == YES


async def test_a_yes_that_comes_after_the_cancel_is_answered_as_cancelled() -> None:
    release = anyio.Event()
    entered = anyio.Event()

    async def stubborn(request: RequestPermissionRequest) -> PermissionAnswer:
        with grace():
            entered.set()
            await release.wait()
        return await allow_once(request)

    async with prompted(Handlers(permission=stubborn)) as (_, peer, turn, prompt):
        id = await peer.request("session/request_permission", permission())
        await entered.wait()
        turn.cancel()
        await peer.barrier()
        release.set()
        assert (await peer.response(id))["result"] == CANCELLED
        await peer.finish(prompt, "cancelled")
        await turn.wait()


@pytest.mark.behaviour("F6")
async def test_cancelling_a_turn_leaves_the_questions_of_other_sessions_open() -> None:
    user = Asked()
    async with prompted(Handlers(permission=user.permission)) as (_, peer, turn, prompt):
        id = await peer.request("session/request_permission", permission("sess_2"))
        await user.entered.wait()
        turn.cancel()
        await peer.finish(prompt, "cancelled")
        await turn.wait()
        await peer.barrier()
        assert not user.dismissed.is_set()
        user.decide.set()
        assert (await peer.response(id))["result"] == YES


@pytest.mark.behaviour("B1")
async def test_an_agent_that_withdraws_its_question_dismisses_it() -> None:
    user = Asked()
    async with talking(Handlers(permission=user.permission)) as (_, peer):
        id = await peer.request("session/request_permission", permission())
        await user.entered.wait()
        await peer.notify("$/cancel_request", {"requestId": id})
        assert (await peer.response(id))["error"]["code"] == -32800
        assert user.dismissed.is_set()


async def test_the_end_of_the_connection_dismisses_open_questions() -> None:
    user = Asked()
    async with talking(Handlers(permission=user.permission)) as (_, peer):
        await peer.request("session/request_permission", permission())
        await user.entered.wait()
    assert user.dismissed.is_set()


async def test_a_handler_that_fails_approves_nothing_and_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(_request: RequestPermissionRequest) -> PermissionAnswer:
        raise ValueError("secret")

    async with talking(Handlers(permission=fails)) as (_, peer):
        response = await peer.ask("session/request_permission", permission())
        assert response["error"] == {"code": -32603, "message": "Internal error"}
    assert "secret" in caplog.text


def said_yes(_request: RequestPermissionRequest) -> PermissionAnswer:
    return None


async def named(_request: RequestPermissionRequest) -> str:
    return "yes"


@pytest.mark.parametrize(
    ("handler", "words"),
    [(named, "one of `request.options`"), (said_yes, "must be `async def`")],
    ids=["an id", "plain"],
)
async def test_a_handler_that_returns_something_else_is_told_what_to_return(
    handler: object, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking(Handlers(permission=handler)) as (_, peer):  # pyright: ignore[reportArgumentType]
        assert (await peer.ask("session/request_permission", permission()))["error"]["code"] == -32603
    assert words in caplog.text


@pytest.mark.parametrize(
    ("kinds", "chosen"), [(["allow_always", "reject_once"], None), (["allow_always", "allow_once"], 1)]
)
async def test_a_yes_for_this_time_is_no_yes_for_good(kinds: list[Any], chosen: int | None) -> None:
    options = [schema.PermissionOption(option_id=str(n), name="x", kind=kind) for n, kind in enumerate(kinds)]
    call = schema.ToolCallUpdate(tool_call_id="c")
    request = schema.RequestPermissionRequest(session_id="s", tool_call=call, options=options)
    assert await allow_once(request) == (None if chosen is None else options[chosen])
