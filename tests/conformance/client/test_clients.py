"""Real clients: our own at a terminal and as a library, and that of the official Python SDK."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from acp_conformance.client import profile
from acp_conformance.core.case import Verdict
from tests.prefork import RUNTIME, Prefork, prefork

from .table import PLAYED, PROFILE, WHOLE_RUN, judged

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
OURS = [sys.executable, str(HERE / "ours.py")]
CHAT = [sys.executable, "-m", "acp_server", "chat", "{agent}"]
OFFICIAL = [sys.executable, str(HERE / "official.py"), "{agent}"]
PATIENCE = 12.0


@pytest.fixture
def anyio_backend() -> str:
    """The suite runs on asyncio alone; a client may run on what it likes."""
    return "asyncio"


@pytest.fixture(scope="module")
def ours() -> Iterator[Prefork]:
    """Starts clients on the package."""
    with prefork(*RUNTIME, "acp_server.apps.cli.commands", "acp_server.apps.cli.chat.conversation") as started:
        yield started


@pytest.fixture(scope="module")
def theirs() -> Iterator[Prefork]:
    """Starts clients on the Python SDK."""
    with prefork("acp") as started:
        yield started


async def verdicts(command: Sequence[str], group: str, of: profile.Profile, by: Prefork) -> dict[str, Verdict]:
    """What is not passed of a group and of the cases of the whole run."""
    results = await judged(command, group, *WHOLE_RUN, patience=PATIENCE, profile=of, start=by.start)
    return {id: result.verdict for id, result in results.items() if result.verdict is not Verdict.PASS}


CHOICES = {
    "initialize/lower-version": Verdict.CHOICE,
    "sessions/authenticates-as-offered": Verdict.CHOICE,  # it has nobody to ask
    "sessions/terminal-login-is-no-request": Verdict.NOT_APPLICABLE,
    "requests/elicitation": Verdict.NOT_APPLICABLE,  # it announces no forms
    "ids/null": Verdict.CHOICE,
    "bad-input/batch": Verdict.CHOICE,
    "closing/status-after-a-death": Verdict.CHOICE,
}


@pytest.mark.parametrize("group", PLAYED)
async def test_our_client_library_passes_every_case(group: str, ours: Prefork) -> None:
    expected = {id: verdict for id, verdict in CHOICES.items() if id.startswith(f"{group}/")}
    assert await verdicts([*OURS, "asyncio", "{agent}"], group, PROFILE, ours) == expected


@pytest.mark.parametrize("group", ["cancel", "terminals", "closing"])
async def test_our_client_library_passes_what_has_to_do_with_time_on_trio(group: str, ours: Prefork) -> None:
    expected = {id: verdict for id, verdict in CHOICES.items() if id.startswith(f"{group}/")}
    assert await verdicts([*OURS, "trio", "{agent}"], group, PROFILE, ours) == expected


@pytest.mark.parametrize("group", ["initialize", "turns", "permission", "cancel", "closing"])
async def test_our_chat_breaks_no_rule(group: str, ours: Prefork) -> None:
    expected = {id: verdict for id, verdict in CHOICES.items() if id.startswith(f"{group}/")}
    assert await verdicts(CHAT, group, profile.load("acp-server-chat"), ours) == expected


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("initialize", {"initialize/lower-version": Verdict.CHOICE}),
        ("updates", {}),
        ("notifications", {}),
        (
            "requests",
            {
                # What a client does not define is answered with null.
                "requests/unknown-method": Verdict.FAIL,
                "requests/not-announced": Verdict.FAIL,
                "requests/elicitation": Verdict.NOT_APPLICABLE,
                "schema/results": Verdict.FAIL,
            },
        ),
        # It has a pipe for the agent's standard error that it does not read.
        ("framing", {"framing/standard-error": Verdict.WARN}),
    ],
)
async def test_the_client_of_the_official_sdk_breaks_the_rules_that_it_is_known_to(
    group: str, expected: dict[str, Verdict], theirs: Prefork
) -> None:
    assert await verdicts(OFFICIAL, group, profile.Profile(), theirs) == expected
