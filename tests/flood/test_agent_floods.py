"""No flood of a client makes an agent large, or holds its event loop, or keeps a cancel waiting."""

import sys

import pytest

from tests.flood.cases import CASES, Case, check, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and CPU time are read from /proc")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("case", [case for case in CASES if case.side != "client"], ids=lambda case: case.name)
def test_an_agent_that_is_flooded_stays_small_and_heeds_cancels(case: Case, backend: str) -> None:
    check(run(case, backend, full=False))
