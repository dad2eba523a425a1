"""A limit that is no number, or a negative one, is refused where it is said."""

from dataclasses import fields
from typing import Any

import pytest

from acp_server import Limits
from acp_server.errors import UsageError


@pytest.mark.parametrize("name", [each.name for each in fields(Limits)])
@pytest.mark.parametrize("value", ["x", -1, True, float("nan"), [1]])
def test_what_is_no_limit_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"Limits\({name}=\.\.\.\) must be an? .*(int|number).* of at least 0, not "):
        Limits(**{name: value})


def test_seconds_may_be_parts_of_one_and_nothing_else_may() -> None:
    assert Limits(grace=0.5, drain=float("inf"), flush=0).grace == 0.5
    wrong: Any = 1.5
    with pytest.raises(UsageError, match=r"Limits\(line=\.\.\.\) must be an int of at least 0, not 1\.5"):
        Limits(line=wrong)
    absent: Any = None
    with pytest.raises(UsageError, match="not None"):
        Limits(line=absent)
    assert Limits(running=None, grace=None).running is None
