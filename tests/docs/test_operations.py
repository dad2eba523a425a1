"""The guide to an agent as a program: its example of metrics counts as it says."""

import pytest

from acp_server.testing import check_observer
from tests.session.editor import END_TURN, editing

from .blocks import run

pytestmark = pytest.mark.anyio


async def test_operations_metrics() -> None:
    example = run("operations.md", "metrics")
    metrics = example["metrics"]
    async with editing(example["agent"]) as editor:
        assert await editor.ask(await editor.open(), "a.txt") == END_TURN
        assert editor.said() == ["a.txt is empty."]
    assert metrics.ended == {
        ("request", "initialize", "completed"): 1,
        ("request", "session/new", "completed"): 1,
        ("request", "session/prompt", "completed"): 1,
        ("turn", "prompt", "completed"): 1,
        ("tool", "look", "completed"): 1,
    }
    assert metrics.seconds["request"] > metrics.seconds["turn"] > metrics.seconds["tool"] > 0
    assert min(metrics.bytes["in"], metrics.bytes["out"]) > 100


async def test_the_observer_of_the_example_keeps_its_contract() -> None:
    metrics = run("operations.md", "metrics")["Metrics"]()
    await check_observer(metrics)
    assert {*metrics.running.values()} == {0}
