"""No folder and no tool call that is made to take for ever holds the loop of the built-in agent, or keeps a cancel
waiting."""

import sys

import pytest

from tests.flood.cases import Case, check, in_small, run
from tests.prefork import Prefork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and CPU time are read from /proc")


@pytest.mark.parametrize(("case", "backend"), list(in_small("hostile")), ids=str)
def test_a_hostile_folder_or_model_holds_up_nothing(case: Case, backend: str, forks: Prefork) -> None:
    check(run(case, backend, full=False, forks=forks))
