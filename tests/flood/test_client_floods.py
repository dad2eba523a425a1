"""No flood of an agent makes a client large, or holds its event loop, or keeps a cancel waiting."""

import sys

import pytest

from tests.flood.cases import Case, check, in_small, run
from tests.prefork import Prefork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and CPU time are read from /proc")


@pytest.mark.parametrize(("case", "backend"), list(in_small("client")), ids=str)
def test_a_client_that_is_flooded_stays_small_and_heeds_cancels(case: Case, backend: str, forks: Prefork) -> None:
    check(run(case, backend, full=False, forks=forks))
