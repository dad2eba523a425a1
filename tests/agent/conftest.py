"""What starts the agents that most of these tests drive."""

from collections.abc import Iterator

import pytest

from tests.agent.processes.driver import started_by_forks


@pytest.fixture(autouse=True, scope="session")
def forks() -> Iterator[None]:
    with started_by_forks():
        yield
