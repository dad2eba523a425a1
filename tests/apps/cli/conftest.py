"""Chats at a terminal: each is a fork of a process that has imported what a chat needs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import pytest

from tests.agent.processes.driver import environment
from tests.apps.cli import at_terminal
from tests.apps.cli import drawn as at_drawn_terminal
from tests.prefork import RUNTIME, Prefork, prefork

_IMPORTED = (
    "acp_server.apps.cli.chat.conversation",
    "acp_server.apps.cli.chat.one_shot",
    "acp_server.apps.cli.chat.user",
    "acp_server.apps.cli.chat.terminal",
    "acp_server.apps.cli.commands",
    *RUNTIME,
)


@pytest.fixture(scope="session")
def chats() -> Iterator[Prefork]:
    with prefork(*_IMPORTED, env=environment()) as starting:
        yield starting


@pytest.fixture
def chat(chats: Prefork) -> Callable[..., AbstractContextManager[at_terminal.Terminal]]:
    """See `at_terminal.chat`."""
    return partial(at_terminal.chat, chats)


@pytest.fixture
def drawn(chats: Prefork) -> Callable[..., AbstractContextManager[at_drawn_terminal.Drawn]]:
    """See `drawn.drawn`."""
    return partial(at_drawn_terminal.drawn, chats)
