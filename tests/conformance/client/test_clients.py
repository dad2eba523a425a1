"""Real clients: our own at a terminal and as a library, and that of the official Python SDK."""

import sys
from pathlib import Path

import pytest

from conformance.case import Verdict
from conformance.client import profile

from .table import judged

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

HERE = Path(__file__).parent
QUIET = {Verdict.PASS, Verdict.CHOICE, Verdict.NOT_APPLICABLE}


@pytest.fixture
def anyio_backend() -> str:
    """The suite runs on asyncio alone; a client may run on what it likes."""
    return "asyncio"


async def test_our_client_library_passes_every_case() -> None:
    results = await judged([sys.executable, str(HERE / "ours.py"), "asyncio", "{agent}"], patience=15)
    not_passed = {id: result.verdict for id, result in results.items() if result.verdict is not Verdict.PASS}
    assert not_passed == dict.fromkeys(
        [
            "initialize/lower-version",
            "sessions/authenticates-as-offered",  # it has nobody to ask
            "ids/null",
            "bad-input/batch",
            "closing/status-after-a-death",
        ],
        Verdict.CHOICE,
    ), results


async def test_our_client_library_on_trio_passes_what_has_to_do_with_time() -> None:
    groups = ("permission", "cancel", "cancel-request", "closing", "framing", "envelope", "schema")
    results = await judged([sys.executable, str(HERE / "ours.py"), "trio", "{agent}"], *groups, patience=15)
    not_passed = {id: result.reason for id, result in results.items() if result.verdict is not Verdict.PASS}
    assert not_passed == {"closing/status-after-a-death": "ends with status 1"}


async def test_our_chat_breaks_no_rule() -> None:
    chat = [sys.executable, "-m", "acp_server.cli", "chat", "{agent}"]
    groups = ("initialize", "turns", "permission", "cancel", "closing", "envelope", "schema", "gating")
    results = await judged(chat, *groups, patience=15, profile=profile.load("acp-server-chat"))
    assert {id: result.verdict for id, result in results.items() if result.verdict not in QUIET} == {
        "initialize/names-itself": Verdict.WARN,  # it does not say who it is
    }


async def test_the_client_of_the_official_sdk_has_three_faults() -> None:
    groups = ("initialize", "turns", "updates", "requests", "notifications", "framing", "envelope", "schema")
    official = [sys.executable, str(HERE / "official.py"), "{agent}"]
    results = await judged(official, *groups, patience=8, profile=profile.Profile())
    assert {id: result.verdict for id, result in results.items() if result.verdict not in QUIET} == {
        # What a client does not define is answered with null.
        "requests/unknown-method": Verdict.FAIL,
        "requests/not-announced": Verdict.FAIL,
        "schema/results": Verdict.FAIL,
        # It has a pipe for the agent's standard error that it does not read.
        "framing/standard-error": Verdict.WARN,
    }
