"""Where tests run side by side, a module's tests share one process, and so what they make once."""

import pytest

SEEN: list[int] = []


@pytest.mark.parametrize("number", range(12))
def test_each_test_of_a_module_runs_in_the_process_of_those_before_it(
    number: int, request: pytest.FixtureRequest
) -> None:
    SEEN.append(number)
    chosen = [
        item.callspec.params["number"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    ]
    assert chosen[: len(SEEN)] == SEEN
