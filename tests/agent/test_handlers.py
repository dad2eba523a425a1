"""Functions of agent authors become prompt handlers."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.from_thread
import pytest

from acp_server import Agent, Turn, grace
from acp_server.errors import UsageError
from tests.session.editor import editing

pytestmark = pytest.mark.anyio


def plain_prompt(turn: Turn) -> None: ...


@pytest.mark.parametrize("function", [plain_prompt, lambda turn: "x", 7, None, "text"])
def test_a_prompt_handler_that_is_not_async_is_refused_when_it_is_registered(function: Any) -> None:
    with pytest.raises(UsageError, match="a prompt handler must be `async def`"):
        Agent("wrong").prompt(function)


async def nothing() -> None: ...
async def two(turn: Turn, more: str) -> None: ...
async def by_name(*, turn: Turn) -> None: ...
async def stream_of_two(turn: Turn, more: str) -> AsyncIterator[str]:
    yield more


@pytest.mark.parametrize("function", [nothing, two, by_name, stream_of_two])
def test_a_prompt_handler_that_does_not_take_a_turn_is_refused_when_it_is_registered(function: Any) -> None:
    with pytest.raises(UsageError, match=f"the prompt handler '{function.__name__}' must take one argument, the turn "):
        Agent("wrong").prompt(function)


async def takes_text(text: str) -> None: ...
async def takes_blocks(blocks: list[dict[str, Any]]) -> None: ...
async def takes_a_number_or_none(number: "int | None") -> None: ...


@pytest.mark.parametrize(
    ("function", "declared"),
    [
        (takes_text, "text: str"),
        (takes_blocks, "blocks: list[dict[str, typing.Any]]"),
        (takes_a_number_or_none, "number: int | None"),
    ],
)
def test_a_handler_whose_first_parameter_is_declared_as_what_a_client_sends_is_refused(
    function: Any, declared: str
) -> None:
    for register, what in (("prompt", "turn"), ("session", "session"), ("logout", "call")):
        with pytest.raises(UsageError) as refused:
            getattr(Agent("wrong"), register)(function)
        passed = f"the runtime passes the {what} as the first argument of {function.__name__!r}"
        assert str(refused.value) == f"{passed}, but its first parameter is {declared}"


async def stream(turn: Turn) -> AsyncIterator[str]:
    yield "said"


async def refuses(call: Any, *_: Any) -> AsyncIterator[str]:
    yield "before it refuses"
    raise ValueError("refused")


class Refusing:
    def __call__(self, call: Any, *_: Any) -> Iterator[str]:
        yield "before it refuses"
        raise ValueError("refused")


@pytest.mark.parametrize("handler", [refuses, Refusing()])
def test_a_login_or_a_choice_whose_handler_yields_is_refused_for_its_check_would_never_run(handler: Any) -> None:
    agent = Agent("wrong")
    for register in (agent.authenticate("login", name="Log in"), agent.logout, agent.set_mode, agent.set_config_option):
        with pytest.raises(UsageError, match="must return its result, not yield it"):
            register(handler)


async def test_a_login_that_gives_a_generator_all_the_same_lets_no_client_in() -> None:
    agent = Agent("strict")
    agent.prompt(stream)
    agent.authenticate("login", name="Log in", required=True)(lambda call: refuses(call))
    async with editing(agent) as editor:
        refused = await editor.client.ask("authenticate", {"methodId": "login"})
        assert refused["error"] == {"code": -32603, "message": "Internal error: the agent's log says why"}
        refused = await editor.client.ask("session/new", {"cwd": "/", "mcpServers": []})
        assert refused["error"]["code"] == -32000


async def test_a_prompt_handler_may_take_more_than_a_turn_if_it_need_not() -> None:
    agent = Agent("more")

    @agent.prompt
    async def prompt(turn: Turn, *rest: Any, more: str = "more") -> str:
        return more

    async with editing(agent) as editor:
        await editor.ask(await editor.open())
        assert editor.said() == ["more"]


async def test_methods_and_partials_may_be_prompt_handlers() -> None:
    class Bot:
        def __init__(self, name: str) -> None:
            self.name = name

        async def stream(self, turn: Turn) -> AsyncIterator[str]:
            yield self.name

        async def call(self, more: str, turn: Turn) -> str:
            return self.name + more

    for handler, expected in ((Bot("a").stream, "a"), (functools.partial(Bot("b").call, "!"), "b!")):
        agent = Agent("bot")
        agent.prompt(handler)
        async with editing(agent) as editor:
            await editor.ask(await editor.open())
            assert editor.said() == [expected]


async def test_a_generator_is_closed_when_its_turn_is_cancelled_and_may_clean_up() -> None:
    agent = Agent("generator")
    order: list[str] = []

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        try:
            while True:
                yield "x" * 100
        finally:
            with grace():
                await anyio.lowlevel.checkpoint()
                await turn.say("last")
                order.append("clean")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert await editor.answer(id) == {"stopReason": "cancelled"}
        assert order == ["clean"]
        assert editor.said()[-1] == "last"
