"""`check_observer` calls each method in each situation, and raises what the observer raises."""

from collections import Counter
from collections.abc import Callable

import pytest

from acp_server import Observer, Span
from acp_server.testing import check_observer

pytestmark = pytest.mark.anyio


class Picky(Observer):
    """Counts the calls, and fails at some ends."""

    def __init__(self, fails: Callable[[Span], bool]) -> None:
        self._fails = fails
        self.calls: Counter[str] = Counter()

    def begin(self, span: Span) -> None:
        self.calls["begin"] += 1

    def end(self, span: Span) -> None:
        self.calls["end"] += 1
        if self._fails(span):
            raise LookupError(span.name)

    def received(self, size: int) -> None:
        self.calls["received"] += 1

    def sent(self, size: int) -> None:
        self.calls["sent"] += 1


async def test_an_observer_that_never_fails_passes() -> None:
    seen = Picky(lambda _: False)
    await check_observer(seen)
    assert seen.calls["begin"] == seen.calls["end"] > 20
    assert seen.calls["received"]
    assert seen.calls["sent"]


@pytest.mark.parametrize("outcome", ["completed", "failed", "rejected", "cancelled"])
async def test_one_that_fails_at_one_outcome_is_found(outcome: str, caplog: pytest.LogCaptureFixture) -> None:
    names = {"completed": "initialize", "failed": "fail", "rejected": "ask", "cancelled": "wait"}
    with pytest.raises(LookupError, match=names[outcome]):
        await check_observer(Picky(lambda span: span.outcome == outcome))
    assert "observer" not in caplog.text


@pytest.mark.parametrize("method", [name for name in vars(Observer) if not name.startswith("_")])
async def test_a_failure_of_any_method_is_raised(method: str) -> None:
    class Broken(Observer):
        pass

    def fail(_self: Observer, _argument: object) -> None:
        raise LookupError(method)

    setattr(Broken, method, fail)
    with pytest.raises(LookupError, match=method):
        await check_observer(Broken())
