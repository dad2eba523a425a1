"""What is flooded, in the small, is a fork of a process that has imported the package."""

from collections.abc import Iterator

import pytest

from tests.prefork import RUNTIME, Prefork, prefork


@pytest.fixture(scope="session")
def forks() -> Iterator[Prefork]:
    with prefork(*RUNTIME, "acp_server.client", "acp_server.client.local", "tests.flood.meter") as started:
        yield started
