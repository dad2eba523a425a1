"""Agents that hang, and agents that work on after a cancel: they are ended, and the chats of others spared."""

import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import psutil
import pytest

from acp_server.apps.gateway.records import KnownSession
from acp_server.client import Patience

from .inside import Api, Counting, begin, ended, ids, pool_of, say
from .serving import PATIENCE

pytestmark = pytest.mark.anyio

GONE = "the agent is gone"
HURRY = Patience(closed=0.1, terminated=0.1)
SILENT = "the agent does not answer"


class Wayward(Counting):
    """The command of an agent with bad manners, what it was asked for, and its processes."""

    def command(self, *capabilities: str) -> list[str]:
        return [sys.executable, str(Path(__file__).parent / "agents" / "wayward.py"), str(self._log), *capabilities]

    def processes(self) -> list[psutil.Process | None]:
        """All that have been started; None for one that is gone."""
        return [_process(int(line.split()[1])) for line in self.asked("start ")]

    def answer_held(self) -> None:
        """Let it answer what it holds back."""
        for process in filter(None, self.processes()):
            process.send_signal(signal.SIGUSR1)

    async def does(self, text: str, times: int = 1) -> None:
        """Until it does this."""
        await until(lambda: self.asked("does ").count(f"does {text}") >= times)


def _process(pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except (psutil.NoSuchProcess, FileNotFoundError):  # It may end while it is looked at.
        return None


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)


@pytest.fixture
def wayward(tmp_path: Path) -> Wayward:
    return Wayward(tmp_path)


async def cancel(http: httpx.AsyncClient, chat: dict[str, Any]) -> None:
    answer = (await http.post("/v3/chat/cancel", json=ids(chat))).json()
    assert answer["data"]["status"] == "canceled"


async def started(http: httpx.AsyncClient, agent: Wayward, text: str, times: int = 1) -> dict[str, Any]:
    """A chat that the agent works for."""
    chat = (await begin(http, text))["data"]
    await agent.does(text, times)
    return chat


async def waits(http: httpx.AsyncClient) -> dict[str, Any]:
    """A chat whose agent waits for an answer."""
    chat = await ended(http, (await begin(http, "ask"))["data"])
    assert chat["status"] == "requires_action"
    return chat


async def allow(http: httpx.AsyncClient, chat: dict[str, Any]) -> None:
    calls = chat["required_action"]["submit_tool_outputs"]["tool_calls"]
    outputs = [{"tool_call_id": call["id"], "output": "yes"} for call in calls]
    answer = await http.post("/v3/chat/submit_tool_outputs", params=ids(chat), json={"tool_outputs": outputs})
    assert answer.json()["code"] == 0


async def retrieved(http: httpx.AsyncClient, chat: dict[str, Any]) -> tuple[str, str]:
    """The chat's status and error when the agent does nothing more for it."""
    with anyio.fail_after(PATIENCE):
        while True:
            chat = (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]
            if chat["status"] not in ("created", "in_progress", "requires_action"):
                return chat["status"], chat["last_error"]["msg"]
            await anyio.sleep(0.01)


async def test_an_agent_that_hangs_behind_a_cancel_is_ended_and_the_next_chat_gets_a_new_one(
    api: Api, wayward: Wayward, caplog: pytest.LogCaptureFixture
) -> None:
    async with api(agent=wayward.command(), patience=HURRY, settle_seconds=0.3) as http:
        other = await started(http, wayward, "hang")
        waiting = await waits(http)
        hung = await started(http, wayward, "block")
        await cancel(http, hung)
        # It is not known yet that the agent hangs: this one waits until it is.
        assert (await say(http, "x"))[1] == "[1] x"
        for chat in (other, waiting):
            assert await retrieved(http, chat) == ("failed", GONE)
        assert await retrieved(http, hung) == ("canceled", "")
        await until(lambda: wayward.processes()[0] is None)
        assert len(wayward.processes()) == 2
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "the default agent does not answer, so its process is stopped" in warnings


async def test_an_agent_that_works_on_after_a_cancel_keeps_its_other_chats_and_gets_no_new_ones(
    api: Api, wayward: Wayward, caplog: pytest.LogCaptureFixture
) -> None:
    async with api(agent=wayward.command(), patience=HURRY, settle_seconds=1) as http:
        other = await waits(http)
        await cancel(http, await started(http, wayward, "hang"))
        await until(lambda: "keeps working after a cancel" in caplog.text)
        # Numbered from 1, so it is in a new process.
        assert (await say(http, "x"))[1] == "[1] x"
        first, second = wayward.processes()
        assert first is not None
        assert second is not None
        await allow(http, other)
        assert await retrieved(http, other) == ("completed", "")
        await until(lambda: wayward.processes() == [None, second])
        assert (await say(http, "y"))[1] == "[2] y"


async def test_an_agent_that_works_on_after_a_cancel_is_ended_at_once_if_it_has_no_other_chats(
    api: Api, wayward: Wayward
) -> None:
    async with api(agent=wayward.command(), patience=HURRY, settle_seconds=0.2) as http:
        await cancel(http, await started(http, wayward, "hang"))
        await until(lambda: wayward.processes() == [None])
        assert (await say(http, "x"))[1] == "[1] x"


async def test_the_other_chats_of_an_agent_that_works_on_after_a_cancel_have_only_so_much_time(
    api: Api, wayward: Wayward
) -> None:
    async with api(agent=wayward.command(), patience=HURRY, settle_seconds=0.2, linger_seconds=0.3) as http:
        others = [await waits(http), await started(http, wayward, "hang")]
        await cancel(http, await started(http, wayward, "hang", 2))
        for other in others:
            assert await retrieved(http, other) == ("failed", GONE)
        await until(lambda: wayward.processes() == [None])


async def test_an_agent_that_confirms_a_cancel_somewhat_late_is_trusted(api: Api, wayward: Wayward) -> None:
    async with api(agent=wayward.command(), patience=HURRY, settle_seconds=1) as http:
        other = await started(http, wayward, "hang")
        await cancel(http, await started(http, wayward, "late"))
        await until(lambda: wayward.asked("_"))
        assert (await say(http, "x"))[1] == "[3] x"
        # Longer than it would have been trusted for.
        await anyio.sleep(1.4)
        assert (await say(http, "y"))[1] == "[4] y"
        assert (await http.get("/v3/chat/retrieve", params=ids(other))).json()["data"]["status"] == "in_progress"
        assert len(wayward.processes()) == 1


async def test_an_agent_that_is_busy_with_another_chat_may_end_that_one_first(api: Api, wayward: Wayward) -> None:
    async with api(agent=wayward.command(), patience=HURRY, settle_seconds=0.8) as http:
        talking = await started(http, wayward, "chatter 250")
        await cancel(http, await started(http, wayward, "block"))
        assert (await say(http, "x"))[1] == "[1] x"
        assert await retrieved(http, talking) == ("completed", "")
        await until(lambda: wayward.processes()[0] is None)


@pytest.mark.parametrize("limits", [{"settle_seconds": 0.1}, {"settle_seconds": 0.1, "linger_seconds": 0.2}])
async def test_a_drained_cancel_asks_nothing_of_the_agent_until_its_time_is_up(
    api: Api, wayward: Wayward, limits: dict[str, float]
) -> None:
    async with api(agent=wayward.command(), patience=HURRY, cancel="drain", **limits) as http:
        await cancel(http, await started(http, wayward, "hang"))
        if "linger_seconds" in limits:
            await until(lambda: wayward.processes() == [None])
        assert (await say(http, "x"))[1] == ("[1] x" if "linger_seconds" in limits else "[2] x")


async def test_an_agent_that_opens_no_session_and_answers_nothing_gets_no_new_chats_and_is_ended_in_the_end(
    api: Api, wayward: Wayward
) -> None:
    async with api(agent=wayward.command(), patience=HURRY, start_seconds=2.5, linger_seconds=0.5) as http:
        hung = await started(http, wayward, "block")
        unopened = (await begin(http, "x"))["data"]
        assert await retrieved(http, unopened) == ("failed", SILENT)
        assert (await say(http, "y"))[1] == "[1] y"
        assert await retrieved(http, hung) == ("failed", GONE)
        await until(lambda: wayward.processes()[0] is None)


async def test_an_agent_that_does_one_thing_at_a_time_may_end_it(api: Api, wayward: Wayward) -> None:
    async with api(agent=wayward.command(), patience=HURRY, start_seconds=2) as http:
        napping = await started(http, wayward, "nap 9")
        unopened = (await begin(http, "x"))["data"]
        assert await retrieved(http, unopened) == ("failed", SILENT)
        assert (await say(http, "y"))[1] == "[1] y"
        assert await retrieved(http, napping) == ("completed", "")
        await until(lambda: wayward.processes()[0] is None)


async def test_an_agent_that_opens_no_session_gets_no_new_chats_although_nobody_waits_for_it_until_the_end(
    api: Api, wayward: Wayward
) -> None:
    limits = {"start_seconds": 2.5, "settle_seconds": 0.2, "linger_seconds": 0.5}
    async with api(agent=wayward.command(), patience=HURRY, **limits) as http:
        hung = await started(http, wayward, "block")
        unopened = (await begin(http, "x"))["data"]
        await anyio.sleep(0.5)
        await cancel(http, unopened)
        assert (await say(http, "y"))[1] == "[1] y"
        assert await retrieved(http, hung) == ("failed", GONE)


async def test_no_agent_is_started_for_what_is_let_go_when_the_gateway_ends(wayward: Wayward) -> None:
    async with anyio.create_task_group() as group:
        bot = pool_of(wayward.command("load", "delete"), "/", patience=HURRY)
        bot.release(KnownSession("1", "old", "key"))
        bot.use(group)
        group.cancel_scope.cancel()
        bot.release(KnownSession("1", "old", "key"))
    assert wayward.processes() == []


async def test_an_agent_that_says_nothing_at_all_is_looked_after(api: Api, wayward: Wayward) -> None:
    async with api(agent=wayward.command(), patience=HURRY, start_seconds=3, silence_seconds=1) as http:
        hung = await started(http, wayward, "block")
        assert await retrieved(http, hung) == ("failed", GONE)
        assert (await say(http, "y"))[1] == "[1] y"


async def test_an_agent_that_works_in_silence_is_left_alone(api: Api, wayward: Wayward) -> None:
    async with api(agent=wayward.command(), patience=HURRY, silence_seconds=0.5) as http:
        working = await started(http, wayward, "hang")
        await until(lambda: len(wayward.asked("_")) == 2)
        assert (await say(http, "x"))[1] == "[2] x"
        assert (await http.get("/v3/chat/retrieve", params=ids(working))).json()["data"]["status"] == "in_progress"


async def test_a_chat_whose_agent_says_something_that_is_too_long_to_be_read_does_not_look_complete(
    api: Api, wayward: Wayward, caplog: pytest.LogCaptureFixture
) -> None:
    async with api(agent=wayward.command()) as http:
        ended = await retrieved(http, (await begin(http, "long"))["data"])
        assert ended == ("failed", "the agent said something that cannot be read")
        assert (await say(http, "x"))[1] == "[2] x"
        assert len(wayward.processes()) == 1
    assert "of the agent was dropped, session '1'" in caplog.text


async def test_an_agent_that_waits_for_its_user_is_not_disturbed(api: Api, wayward: Wayward) -> None:
    async with api(agent=wayward.command(), patience=HURRY, silence_seconds=0.5) as http:
        chat = await waits(http)
        await anyio.sleep(1.7)
        await allow(http, chat)
        assert await retrieved(http, chat) == ("completed", "")
        assert wayward.asked("_") == []
