"""A gateway for each kind of cancel, started once a module, and clients for it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from .inside import Api, Counting, gateway_in
from .serving import OTHER_TOKEN, Server, client, cozepy, serving
from .several import serving_three

REAL_CLIENTS = {"test_cozepy", "test_cancelling", "test_conversations", "test_tool_outputs", "test_node_client"}
"""Modules whose tests run twice: against one gateway, and against three with one database, behind a proxy."""

Serving = Callable[..., AbstractContextManager[Server]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.definition.path.stem
    if module in REAL_CLIENTS and "gateways" in metafunc.fixturenames:
        alone = any(metafunc.definition.iter_markers("one_gateway"))
        metafunc.parametrize("gateways", ["one"] if alone else ["one", "three"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def gateways(request: pytest.FixtureRequest) -> Serving:
    """What serves: one gateway, or three of them."""
    return serving_three if getattr(request, "param", "one") == "three" else serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, gateways: Serving) -> Iterator[Server]:
    with gateways(tmp_path_factory.mktemp("stop")) as server:
        yield server


@pytest.fixture(scope="module")
def draining(tmp_path_factory: pytest.TempPathFactory, gateways: Serving) -> Iterator[Server]:
    with gateways(tmp_path_factory.mktemp("drain"), "--cancel", "drain") as server:
        yield server


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


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """Makes gateways in this process, with one folder."""
    return partial(gateway_in, tmp_path)


@pytest.fixture
def agent(tmp_path: Path) -> Counting:
    """An agent for those gateways."""
    return Counting(tmp_path)
