"""The projects that the agents work on."""

from pathlib import Path

import pytest

from .projects import make_small, make_vast


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_small(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def vast_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("vast")
    make_vast(root)
    return root
