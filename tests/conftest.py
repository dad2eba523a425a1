"""What every test shares: the two backends."""

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each test marked `anyio` once on asyncio and once on trio."""
    return request.param
