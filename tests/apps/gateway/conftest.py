"""Gateways that modules share, one for each kind of cancel, a PostgreSQL that they share, and clients."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import pytest

from acp_server.apps.gateway import program

from .inside import Api, Counting, gateway_in, spawn
from .postgres import Server as Database
from .postgres import postgres
from .proxy import running
from .serving import OTHER_TOKEN, Server, client, cozepy, serving, started_by_forks
from .several import serving_three

REAL_CLIENTS = {"test_cozepy", "test_cancelling", "test_conversations", "test_tool_outputs", "test_node_client"}
"""Modules whose tests run twice: against one gateway, and against three with one database, behind a proxy."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.definition.path.stem
    if module in REAL_CLIENTS and "gateways" in metafunc.fixturenames:
        alone = any(metafunc.definition.iter_markers("one_gateway"))
        metafunc.parametrize("gateways", ["one"] if alone else ["one", "three"], indirect=True, scope="module")


class Shared:
    """Gateways that were started for one module and serve the next ones, too: a start costs more than most tests."""

    def __init__(self, start: Callable[..., AbstractContextManager[Server]], opened: ExitStack) -> None:
        self._start = start
        self._opened = opened
        self._servers: dict[tuple[str, ...], Server] = {}

    def server(self, folders: pytest.TempPathFactory, *options: str) -> Server:
        """The one with these options. What it has told so far is for other modules."""
        if options not in self._servers:
            self._servers[options] = self._opened.enter_context(self._start(folders.mktemp("gateway"), *options))
        self._servers[options].ear.clear()
        return self._servers[options]


@pytest.fixture(scope="session", autouse=True)
def forks() -> Iterator[None]:
    with started_by_forks():
        yield


@pytest.fixture(autouse=True)
def proxies_at_rest() -> Iterator[None]:
    """A client that has its answer does not wait until the proxy has closed the connection, and so a test does."""
    yield
    for proxy in running:
        proxy.settle()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Database]:
    """For all tests that do not stop it. Each has databases of its own."""
    with postgres() as database:
        yield database


@pytest.fixture(scope="session")
def one() -> Iterator[Shared]:
    with ExitStack() as opened:
        yield Shared(serving, opened)


@pytest.fixture(scope="session")
def three(postgresql: Database) -> Iterator[Shared]:
    with ExitStack() as opened:
        yield Shared(partial(serving_three, postgresql), opened)


@pytest.fixture(scope="module")
def gateways(request: pytest.FixtureRequest) -> Shared:
    """What serves: one gateway, or three of them."""
    return request.getfixturevalue(getattr(request, "param", "one"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, gateways: Shared) -> Server:
    return gateways.server(tmp_path_factory)


@pytest.fixture(scope="module")
def draining(tmp_path_factory: pytest.TempPathFactory, gateways: Shared) -> Server:
    return gateways.server(tmp_path_factory, "--cancel", "drain")


@pytest.fixture(params=["stop", "drain"])
def either(request: pytest.FixtureRequest, server: Server, draining: Server) -> Server:
    """Both kinds of cancel, one after the other."""
    return draining if request.param == "drain" else server


@pytest.fixture
def coze(server: Server) -> Iterator[cozepy.Coze]:
    with client(server) as coze:
        yield coze


@pytest.fixture
def bob(server: Server) -> Iterator[cozepy.Coze]:
    with client(server, OTHER_TOKEN) as coze:
        yield coze


@pytest.fixture(scope="session", autouse=True)
def agents_in_memory() -> Iterator[None]:
    """Gateways in this process have agents in this process, where a test does not ask for others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "spawn_agent", spawn)
        yield


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """Makes gateways in this process, with one folder."""
    return partial(gateway_in, tmp_path)


@pytest.fixture
def agent(tmp_path: Path) -> Counting:
    """An agent for those gateways."""
    return Counting(tmp_path)
