"""What authors write by mistake is answered with what to write instead."""

import logging
from typing import Any

import pytest

from acp_server import Agent, Session, Turn
from acp_server.errors import UsageError
from acp_server.testing import memory_pair
from tests.session.editor import END_TURN, editing


@pytest.mark.parametrize("name", ["prompt", "steer", "session", "set_mode", "logout"])
def test_a_decorator_with_parentheses_that_takes_none_says_so(name: str) -> None:
    register: Any = getattr(Agent("a"), name)
    with pytest.raises(UsageError, match=f"@agent.{name} is written without parentheses and takes only the function"):
        register()


def test_an_option_that_tools_do_not_have_is_refused_with_the_nearest_one() -> None:
    wrong: Any = {"approve": True}
    with pytest.raises(UsageError, match=r"a tool has no option 'approve'; did you mean 'approval'\?"):
        Agent("a").tool(**wrong)(lambda: None)
    odd: Any = {"zzz": True}
    with pytest.raises(UsageError, match="a tool has no option 'zzz'; there are name, title, "):
        Agent("a").tool(**odd)(lambda: None)


def test_limits_that_are_none_are_refused_before_anything_is_served() -> None:
    wrong: Any = 5
    with pytest.raises(UsageError, match=r"limits must be a Limits object, not 5"):
        Agent("a").run(limits=wrong)
    with pytest.raises(UsageError, match=r"limits must be a Limits object"):
        Agent("a").connect(memory_pair()[1], wrong)


@pytest.mark.anyio
async def test_run_in_an_event_loop_says_what_to_await_instead() -> None:
    with pytest.raises(UsageError, match=r"an event loop is already running; use await serve_stdio\(agent\)"):
        Agent("a").run()


@pytest.mark.anyio
async def test_what_a_session_handler_returns_to_no_effect_is_said_in_the_log_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent("a")

    @agent.session
    async def notes(session: Session) -> Any:
        return {"notes": 1}

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        assert turn.session.data is None
        with pytest.raises(UsageError, match=r"meta data needs keys of 1 to 64 .+, not a str with a int"):
            turn.meta_data = {"a": 5}  # pyright: ignore[reportAttributeAccessIssue]
        await turn.say("Done.")

    with caplog.at_level(logging.WARNING):
        async with editing(agent) as editor:
            await editor.open()
            assert await editor.ask(await editor.open()) == END_TURN
    [record] = caplog.records
    assert "notes returned a dict, which has no effect: yield it, or set session.data" in record.getMessage()
