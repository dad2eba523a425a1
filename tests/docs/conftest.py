"""Programs of the guides and the examples are forks of a process that has imported the package."""

from collections.abc import Iterator

import pytest

from tests.agent.processes.driver import environment
from tests.prefork import RUNTIME, Prefork, prefork

_IMPORTED = (
    "acp_server.apps.cli.commands",
    "acp_server.apps.cli.store",
    "acp_server.client",
    "acp_server.store.sqlite_store",
    "acp_server.apps.coder",
    "sqlite3",
)


@pytest.fixture(scope="session")
def forks() -> Iterator[Prefork]:
    with prefork(*RUNTIME, *_IMPORTED, env=environment()) as started:
        yield started
