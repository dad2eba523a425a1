"""Causes: who wanted the end."""

import pytest

from acp_server.tasks.cause import Cause


@pytest.mark.parametrize("cause", list(Cause))
def test_only_the_client_and_its_user_ask_for_a_cancel(cause: Cause) -> None:
    assert cause.asked_for == (cause in {Cause.PEER, Cause.SESSION, Cause.USER, Cause.INTERRUPT})
