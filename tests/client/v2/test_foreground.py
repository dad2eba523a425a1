"""When the work for one prompt is over, state by state: without an agent, and without a clock."""

import anyio
import pytest

from acp_server.client.v2.foreground import ECHOES, Foreground, Work
from acp_server.schema import v2
from tests.client.v2.talking import idle, prompted_2, said, state, whole

pytestmark = pytest.mark.anyio


def told(reason: str) -> v2.StateUpdate:
    return v2.StateUpdate.from_wire(idle(reason))


def begun() -> tuple[Foreground, Work, list[str]]:
    """The work for a prompt that was just sent, and what its caller is told once it is gone."""
    over: list[str] = []
    foreground = Foreground(lambda: 0.0)
    return foreground, foreground.begin(lambda: over.append("over")), over


async def test_the_first_idle_that_ends_it_says_how_it_ended() -> None:
    _, work, _ = begun()
    work.end(told("refusal"))
    work.end(told("end_turn"))
    assert work.ended == told("refusal")


async def test_work_of_which_nothing_is_heard_any_more_has_no_end() -> None:
    foreground, work, _ = begun()
    work.lost()
    assert work.done.is_set()
    assert work.ended is None
    assert foreground.work is work


async def test_of_two_ends_behind_an_echo_the_first_is_that_of_the_prompt() -> None:
    _, work, _ = begun()
    assert work.is_echo("u1")
    work.went_idle(told("refusal"))
    work.went_idle(told("end_turn"))
    work.answered("u1")
    assert work.ended == told("refusal")


async def test_of_two_snapshots_of_an_agent_that_only_says_idle_the_first_counts() -> None:
    foreground, work, _ = begun()
    for reason in ("refusal", "end_turn"):
        foreground.snapshot(told(reason), is_cancelling=False)
    assert work.unbegun == told("refusal")


async def test_an_agent_that_begins_too_late_changes_nothing() -> None:
    _, work, _ = begun()
    work.is_idle(told("refusal"))
    work.waiting.cancel()
    work.went_on()
    assert work.unbegun == told("refusal")


async def test_no_more_than_a_hundred_messages_are_looked_at_while_the_answer_is_waited_for() -> None:
    _, work, _ = begun()
    assert all(work.is_echo(f"u{number}") for number in range(ECHOES + 1))
    work.went_idle(told("refusal"))
    work.answered("u0")
    assert work.ended == told("refusal")
    assert len(work._echoes) == ECHOES


async def test_a_caller_that_leaves_is_told_the_end_when_it_comes() -> None:
    foreground, work, over = begun()
    work.answered("u1")
    work.left()
    # The prompt was put in, so its work still counts.
    work.refused()
    assert (foreground.work, over) == (work, [])
    work.end(told("end_turn"))
    assert (foreground.work, over) == (None, ["over"])


@pytest.mark.parametrize("how", ["refused", "lost", "ended before"])
async def test_a_caller_that_leaves_is_told_at_once_where_nothing_will_come(how: str) -> None:
    _, work, over = begun()
    if how == "ended before":
        work.end(told("end_turn"))
    work.left()
    if how == "refused":
        work.refused()
    elif how == "lost":
        work.lost()
    assert over == ["over"]


async def test_a_caller_that_waits_is_not_told() -> None:
    _, work, over = begun()
    work.answered("u1")
    work.end(told("end_turn"))
    assert over == []


async def test_behind_the_answer_only_the_echo_of_the_prompt_is_not_shown() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": "u1"})
        other = whole("and be quick", message="u2", by="user_message")
        await peer.update(state("running"), whole("hello", message="u1", by="user_message"), other, said("hi"), idle())
        with anyio.fail_after(5):
            shown = [update.to_wire() async for update in turn]
        words = [update["content"]["text"] for update in shown if "content" in update]
        assert words == ["and be quick", "hi"]
