"""The options of a tool are looked at when it is registered."""

from typing import Any

import pytest

from acp_server import Agent
from acp_server.errors import UsageError


async def look(word: str) -> str:
    return word


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("approval", "yes", "approval must be True, False or a function that returns the question, not 'yes'"),
        ("approval", None, "approval must be True, False or a function that returns the question, not None"),
        ("auto_approve", "no", "auto_approve must be True or False, not 'no'"),
        ("asks_each_time", 1, "asks_each_time must be True or False, not 1"),
        ("needs_editor", "no", "needs_editor must be True or False, not 'no'"),
        ("approval_timeout", "5", "approval_timeout must be more than 0 seconds, not '5'"),
        ("approval_timeout", 0, "approval_timeout must be more than 0 seconds, not 0"),
        ("approval_timeout", True, "approval_timeout must be more than 0 seconds, not True"),
    ],
)
def test_an_option_that_is_not_what_it_should_be_is_refused(option: str, value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Agent("a").tool(**{option: value})(look)
