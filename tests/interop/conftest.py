"""The projects that the agents work on, and what drives agents by the TypeScript SDK."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .projects import make_small, make_vast
from .subjects import started_by_forks
from .typescript import hosting


@pytest.fixture(autouse=True, scope="session")
def host() -> Iterator[None]:
    """Carries out the plans of all tests in one process."""
    if shutil.which("node") is None:
        yield
        return
    with hosting():
        yield


@pytest.fixture(autouse=True, scope="session")
def forks() -> Iterator[None]:
    with started_by_forks():
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_small(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def vast_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("vast")
    make_vast(root)
    return root
