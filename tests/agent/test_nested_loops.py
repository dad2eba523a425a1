"""Handlers that run the event loop within itself, as `nest_asyncio` lets them."""

import sys

import pytest

from tests.agent.processes import nesting
from tests.agent.processes.driver import started
from tests.agent.test_signals import CANCELLED

KINDS = pytest.mark.parametrize("patched", ["early", "late"])


@KINDS
@pytest.mark.parametrize("method", ["nest", "later"])
def test_other_requests_and_cancels_go_on_while_a_handler_runs_the_loop_within_itself(
    method: str, patched: str
) -> None:
    with started([sys.executable, nesting.__file__, patched]) as agent:
        agent.begin(1, "hang")
        for id in (10, 20):
            agent.begin(id, method)
            assert agent.call(id + 1, "echo", a=1) == {"a": 1}
            agent.begin(id + 2, "hang")
            agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id + 2}})
            assert agent.answer(id + 2)["error"] == CANCELLED
            agent.request(id + 3, "free")
            assert agent.answer(id)["result"] == "inner"
        agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
        assert agent.answer(1)["error"] == CANCELLED
        assert agent.finish() == 0
        assert "cannot enter context" not in agent.stderr


@pytest.mark.parametrize(("patched", "said"), [("early", 0), ("late", 1)])
def test_that_a_handler_runs_the_loop_within_itself_is_said_once(patched: str, said: int) -> None:
    with started([sys.executable, nesting.__file__, patched]) as agent:
        for id in (10, 20, 30):
            agent.begin(id, "nest")
            agent.request(id + 1, "free")
            assert agent.answer(id)["result"] == "inner"
        assert agent.finish() == 0
        assert agent.stderr.count("a handler runs the event loop inside itself") == said


@KINDS
def test_the_end_of_the_input_has_its_deadline_while_a_handler_runs_the_loop_within_itself(patched: str) -> None:
    with started([sys.executable, nesting.__file__, patched]) as agent:
        agent.begin(1, "nest")
        agent.close_input()
        assert agent.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        assert agent.exit_code() == 0
