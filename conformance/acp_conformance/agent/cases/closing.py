"""The end of a conversation by the end of input, a broken pipe or a signal."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import anyio

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Ended, NoAnswer
from acp_conformance.core.case import CHOICE, MUST, SHOULD, Outcome, Verdict, choice, fail
from acp_conformance.core.process import strays

ACP = "ACP v1"
STDIO = "Transports, stdio"
UNKNOWN = "_conformance/unknown"


async def _exits(agent: Agent, cause: str) -> int:
    try:
        return await agent.exit()
    except NoAnswer as still:
        with suppress(NoAnswer):
            await agent.exit(within=still.seconds)
            raise Outcome(Verdict.SLOW, f"it ended more than {still.seconds:.3g} s after {cause}") from still
        raise Outcome(Verdict.FAIL, f"{2 * still.seconds:.3g} s after {cause} it still runs") from still


@case("closing/exits", level=SHOULD, source=ACP, section=STDIO)
async def exits(agent: Agent) -> None:
    """The agent ends when its input ends."""
    await agent.initialize()
    await agent.end_input()
    await _exits(agent, "the end of its input")


@case("closing/exits-at-once", level=SHOULD, source=ACP, section=STDIO)
async def exits_at_once(agent: Agent) -> None:
    """The agent ends when its input ends before any message."""
    await agent.end_input()
    await _exits(agent, "the end of its input")


@case("closing/exits-during-turn", level=SHOULD, source=ACP, section=STDIO, needs="hang")
async def exits_during_turn(agent: Agent) -> None:
    """The agent ends when its input ends while a turn runs."""
    session = await agent.session()
    await agent.said_something(await agent.prompt(session, "hang"))
    await agent.end_input()
    await _exits(agent, "the end of its input")


@case("closing/exits-while-asking", level=SHOULD, source=ACP, section=STDIO, needs="permission")
async def exits_while_asking(agent: Agent) -> None:
    """The agent ends when its input ends while it waits for a response of the client."""
    session = await agent.session()
    agent.hold("session/request_permission")
    await agent.prompt(session, "permission")
    await agent.next_request("session/request_permission")
    await agent.end_input()
    await _exits(agent, "the end of its input")


@case("closing/status", level=SHOULD, source=ACP, section=STDIO)
async def status(agent: Agent) -> None:
    """The exit status is 0 after the end of input."""
    await agent.initialize()
    await agent.end_input()
    if status := await _exits(agent, "the end of its input"):
        fail(f"the exit status is {status}")


@case("closing/answers-first", level=SHOULD, source="JSON-RPC 2.0", section="5 Response object")
async def answers_first(agent: Agent) -> None:
    """A request right before the end of input is answered."""
    await agent.initialize()
    pending = await agent.request(UNKNOWN, {})
    await agent.end_input()
    try:
        await pending.answer()
    except Ended:
        fail("its output ends without the answer")


@case("closing/turn-at-end", level=CHOICE, source=ACP, section=STDIO, needs="hang")
async def turn_at_end(agent: Agent) -> None:
    """The specification leaves open whether a prompt is answered if its turn runs when the input ends."""
    session = await agent.session()
    prompt = await agent.prompt(session, "hang")
    await agent.said_something(prompt)
    await agent.settle(grace=agent.patience)
    if not prompt.answers:
        choice("not answered")
    answer = prompt.answers[0]
    choice(f"answered with {code_of(answer) if 'error' in answer else answer.get('result')}")


@case("closing/no-newline", level=CHOICE, source=ACP, section=STDIO)
async def no_newline(agent: Agent) -> None:
    """A complete last message without a newline is served or dropped."""
    await agent.initialize()
    pending = agent.expect(agent.new_id(), UNKNOWN)
    await agent.raw(f'{{"jsonrpc":"2.0","id":{pending.id},"method":"{UNKNOWN}","params":{{}}}}'.encode())
    await agent.settle()
    choice("served" if pending.answers else "dropped")


@case("closing/cut-short", level=SHOULD, source=ACP, section=STDIO)
async def cut_short(agent: Agent) -> None:
    """The agent ends when its input ends inside a message."""
    await agent.initialize()
    await agent.raw(b'{"jsonrpc":"2.0","id":77,"meth')
    await agent.end_input()
    await _exits(agent, "the end of its input")


@case("closing/broken-pipe", level=CHOICE, source=ACP, section=STDIO)
async def broken_pipe(agent: Agent) -> None:
    """The specification leaves open whether the agent ends when the client stops reading."""
    await agent.initialize()
    await agent.stop_reading()
    # The number of writes until an agent notices is its own choice, so it gets reasons to write until it ends.
    with anyio.move_on_after(agent.patience):
        while agent.process.returncode is None:
            await agent.request(UNKNOWN, {})
            with anyio.move_on_after(0.05):
                await agent.process.wait()
        choice("it ends")
    choice(f"{agent.patience:.3g} s after its output broke it still runs")


@case("closing/broken-pipe-then-end", level=SHOULD, source=ACP, section=STDIO)
async def broken_pipe_then_end(agent: Agent) -> None:
    """The agent ends when the client has closed both pipes."""
    await agent.initialize()
    await agent.stop_reading()
    await agent.request(UNKNOWN, {})
    await agent.end_input()
    await _exits(agent, "both ends were closed")


@case("closing/terminated", level=SHOULD, source=ACP, section=STDIO)
async def terminated(agent: Agent) -> None:
    """The agent ends when it is terminated (SIGTERM)."""
    await agent.initialize()
    os.kill(agent.process.pid, signal.SIGTERM)
    await _exits(agent, "SIGTERM")


@case("closing/terminated-during-turn", level=SHOULD, source=ACP, section=STDIO, needs="hang")
async def terminated_during_turn(agent: Agent) -> None:
    """The agent ends when it is terminated (SIGTERM) while a turn runs."""
    session = await agent.session()
    await agent.said_something(await agent.prompt(session, "hang"))
    os.kill(agent.process.pid, signal.SIGTERM)
    await _exits(agent, "SIGTERM")


def _left(agent: Agent) -> set[int]:
    """Return the processes of the agent's group, and its processes that have left the group."""
    return {*agent.process.company(), *(strays(agent.mark) if agent.mark else ())}


@case("closing/leaves-nothing", level=SHOULD, source=ACP, section=STDIO)
async def leaves_nothing(agent: Agent) -> None:
    """No process that the agent started outlives the agent."""
    await agent.session()
    await agent.end_input()
    await _exits(agent, "the end of its input")
    with anyio.move_on_after(agent.patience):  # they may be ending at this moment
        while _left(agent):  # noqa: ASYNC110 - nothing else tells
            await anyio.sleep(0.02)
        return
    fail(f"{len(_left(agent))} of its processes live on, {agent.patience:.3g} s after its end")


@case("closing/quiet-end", level=CHOICE, source=ACP, section=STDIO, needs="hang")
async def quiet_end(agent: Agent) -> None:
    """The end of input during a turn may leave a traceback on standard error."""
    session = await agent.session()
    await agent.said_something(await agent.prompt(session, "hang"))
    await agent.settle(grace=agent.patience)
    errors = agent.process.stderr
    if "Traceback" in errors or "was never retrieved" in errors:
        choice("a traceback")


@case("closing/output-lasts", level=MUST, source=ACP, section=STDIO)
async def output_lasts(agent: Agent) -> None:
    """The agent keeps its output open as long as its input is open."""
    await agent.session()
    await agent.fence()
    await agent.notify("_conformance/note", {})
    await agent.fence()
