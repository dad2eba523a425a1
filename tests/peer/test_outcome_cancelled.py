"""Which answer a request gets that was cancelled, or that ended the program."""

import logging

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import InvalidParams, TurnEnded
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection
from acp_server.peer.outcome import report, report_cancelled
from acp_server.tasks.cause import Cause, program_end
from acp_server.testing.streams import memory_pair
from tests.peer.handlers import CANCELLED, INTERNAL, answer_of, logged, raiser
from tests.tasks.stray import stray_cancellation
from tests.wire.live import Peer, cancel, request, served

pytestmark = pytest.mark.anyio


# cancelled


@pytest.mark.behaviour("B10")
@pytest.mark.parametrize(
    "error", [ValueError("cleanup"), InvalidParams("cleanup"), TimeoutError("cleanup"), TurnEnded("cleanup")]
)
async def test_a_cleanup_that_fails_is_logged_and_the_answer_is_that_of_a_cancelled_request(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert await answer_of(raiser(error, when_cut=True), peer_cancels=True) == CANCELLED
    (line,) = logged(caplog, logging.WARNING)
    assert line.startswith("handle failed while it was being cancelled (peer)")
    assert "cleanup" in caplog.text
    assert ("Traceback" in caplog.text) is not isinstance(error, InvalidParams | TurnEnded)


@pytest.mark.behaviour("B10")
async def test_a_cleanup_that_fails_does_not_lose_the_partial_result() -> None:
    async def handle(call: Call) -> None:
        call.partial("part")
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    assert await answer_of(handle, peer_cancels=True) == "part"


@pytest.mark.parametrize(("cause", "level"), [(Cause.CLOSED, logging.INFO), (Cause.PEER, logging.WARNING)])
async def test_a_refusal_that_its_client_has_left_is_not_worth_a_warning(
    cause: Cause, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        report_cancelled(logging.getLogger("acp_server.peer"), "session/load", cause, InvalidParams("unknown"))
    assert [(record.levelno, "unknown" in record.getMessage()) for record in caplog.records] == [(level, True)]


@pytest.mark.behaviour("B11")
async def test_a_cancel_that_arrives_in_a_group_is_a_cancel(caplog: pytest.LogCaptureFixture) -> None:
    stray = await stray_cancellation()
    handler = raiser(stray, BaseExceptionGroup("inner", [stray]), when_cut=True)
    assert await answer_of(handler, peer_cancels=True) == CANCELLED
    assert logged(caplog, logging.WARNING) == []


@pytest.mark.behaviour("B11")
async def test_a_cancel_mixed_with_failures_is_a_cancel_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def child() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("in a child")

    async def handle(_call: Call) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(child)
            group.start_soon(anyio.sleep_forever)

    assert await answer_of(handle, peer_cancels=True) == CANCELLED
    assert logged(caplog, logging.WARNING) == ["handle failed while it was being cancelled (peer)"]
    assert "in a child" in caplog.text


@pytest.mark.behaviour("C13")
async def test_a_cancelled_request_whose_child_is_cancelled_too_is_answered_once_by_its_own_rule() -> None:
    async def handle(call: Call) -> None:
        call.partial("part")
        await call.request_peer("question")

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        id = (await peer.next())["id"]
        peer.send(cancel(1), {"jsonrpc": "2.0", "id": id, "error": CANCELLED})
        answer = await peer.next()
        if "method" in answer:
            answer = await peer.next()
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": "part"}
        assert await peer.ping() == []


# the end of the program


@pytest.mark.behaviour("D5")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("when_cut", [False, True])
async def test_a_handler_that_ends_the_program_is_answered_like_all_others_and_then_it_ends(
    error: BaseException, wrapped: bool, when_cut: bool
) -> None:
    errors = [ValueError("x"), BaseExceptionGroup("inner", [error])] if wrapped else [error]

    async def wait(_call: Call) -> None:
        await anyio.sleep_forever()

    routes = Routes({"end": Route(raiser(*errors, when_cut=when_cut)), "wait": Route(wait)})
    here, there = memory_pair()
    peer = Peer(Connection(here, routes), there)
    peer.send(request(2, "wait"), request(1, "end"))
    raised: list[BaseException] = []

    async def run() -> None:
        try:
            await peer.connection.run()
        except BaseException as problem:
            raised.append(problem)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        if when_cut:
            peer.send(cancel(1))
        answers = {answer["id"]: answer["error"] for answer in [await peer.next(), await peer.next()]}
    assert answers == {1: CANCELLED if when_cut else INTERNAL, 2: CANCELLED}
    assert raised == [error]


async def test_the_end_of_a_program_is_found_in_any_group() -> None:
    end = SystemExit(1)
    assert program_end(BaseExceptionGroup("a", [ValueError(), BaseExceptionGroup("b", [end])])) is end
    assert program_end(ValueError()) is None


@pytest.mark.behaviour("D5")
async def test_what_handlers_raise_never_reaches_each_other_or_the_connection() -> None:
    async def fail_in_cleanup(_call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    go = anyio.Event()

    async def sibling(_call: Call) -> str:
        await go.wait()
        return "unharmed"

    async with served(Routes({"fail": Route(fail_in_cleanup), "sibling": Route(sibling)})) as peer:
        peer.send(request(0, "sibling"), *(request(id, "fail") for id in (1, 2, 3)))
        await peer.ping()
        for id in (1, 2, 3):
            peer.send(cancel(id))
            assert await peer.answer(id) == CANCELLED
        go.set()
        assert await peer.answer(0) == "unharmed"


@pytest.mark.parametrize("cause", [cause for cause in Cause if not cause.asked_for])
@pytest.mark.behaviour("D1", "D2")
async def test_a_request_that_the_agent_gave_up_on_is_not_passed_off_as_what_was_asked_for(cause: Cause) -> None:
    async def handle(call: Call) -> None:
        call.partial({"stopReason": "cancelled"})
        call.node.cancel(cause)
        await anyio.lowlevel.checkpoint()

    assert await answer_of(handle) == CANCELLED


# in the log alone


@pytest.mark.parametrize(
    ("error", "said", "traced"),
    [
        (InvalidParams("no such file"), "the closer failed: no such file", False),
        (ValueError("a bug"), "the closer failed", True),
    ],
)
async def test_what_an_author_says_is_wrong_is_one_line_of_the_log(
    error: Exception, said: str, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    report("the closer", error)
    (line,) = logged(caplog, logging.ERROR)
    assert line.startswith(said)
    assert ("a bug" in caplog.text) is traced
