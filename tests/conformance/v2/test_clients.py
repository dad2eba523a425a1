"""The suite can tell right from wrong in clients of version 2. The small ones are in memory, and answer at once."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import pytest

from acp_conformance.client import profile
from acp_conformance.client.pace import Pace
from acp_conformance.client.run import run
from acp_conformance.client.stage import Setting
from acp_conformance.client.v2 import cases
from acp_conformance.core.case import Case
from acp_conformance.core.result import Level, Run, Verdict
from acp_conformance.report.words import subject_of
from tests.conformance.client.test_clients import OURS
from tests.conformance.v2.clients.clean import Clean
from tests.conformance.v2.clients.faults import ALSO_CAUGHT, CAUGHT_BY
from tests.conformance.v2.clients.lines import starting
from tests.prefork import RUNTIME, Prefork, prefork

CASES = cases.load()
PROFILE = profile.parse(
    {
        "situations": {
            "approve": {"stdin": ["{number}"]},
            "reject": {"stdin": ["{number}"]},
            "cancel": {"signal": "SIGINT"},
            "again": {"stdin": ["go on"], "arguments": ["--again"]},
            "resume": {"arguments": ["--resume"], "automatic": True},
        }
    }
)
CLIENTS_AT_ONCE = 16
# What is waited for what a faulty client never says.
SECONDS = 2.0


async def judge(client: type[Clean], chosen: Iterable[Case], seconds: float = SECONDS) -> Run:
    setting = Setting([client.__name__, "{agent}"], PROFILE, Pace(seconds), start=starting(client))
    return await run(setting, list(chosen), jobs=6)


def before(case: Case) -> list[Case]:
    """What holds for every message is judged over a case in which the client says such a message."""
    said = {
        "v2-schema/results": "v2-cancel/permission",
        "v2-envelope/error": "v2-requests/unknown-method",
        "v2-envelope/own-ids": "v2-cancel/before-the-answer",
    }
    return [CASES[said.get(case.id, "v2-cancel/is-a-notification")]] if case.whole_run else []


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Mapping[str, Run]:
    """The run of each chosen case over the client that has its fault, all beside each other."""
    chosen = [id for id in CAUGHT_BY if any(f"[{id}]" in item.name for item in request.session.items)]
    found: dict[str, Run] = {}

    async def one(id: str, slots: anyio.Semaphore) -> None:
        async with slots:
            found[id] = await judge(CAUGHT_BY[id], [*before(CASES[id]), CASES[id]])

    async def all_of_them() -> None:
        slots = anyio.Semaphore(CLIENTS_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for id in chosen:
                tasks.start_soon(one, id, slots)

    anyio.run(all_of_them)
    return found


def test_each_case_has_a_fault_that_it_catches() -> None:
    assert {case.id for case in CASES if case.level is not Level.CHOICE} == set(CAUGHT_BY)


@pytest.mark.parametrize("id", CAUGHT_BY)
def test_a_fault_is_caught_by_its_case(id: str, runs: Mapping[str, Run]) -> None:
    result = runs[id].cases[-1]
    assert result.verdict is CASES[id].broken(), result.reason


@pytest.mark.parametrize(("id", "client"), [(id, client) for id, clients in ALSO_CAUGHT.items() for client in clients])
def test_a_message_of_the_wrong_shape_is_caught(id: str, client: type[Clean]) -> None:
    result = anyio.run(judge, client, [*before(CASES[id]), CASES[id]]).cases[-1]
    assert result.verdict is Verdict.FAIL, result.reason


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_clean_client_is_not_accused(backend: str) -> None:
    judged = anyio.run(partial(judge, Clean, CASES, 30.0), backend=backend)
    assert {case.id: case.reason for case in judged.cases if case.verdict is not Verdict.PASS} == {}
    assert subject_of(judged) == "clean 1 (protocol 2)"


class OnlyVersion1(Clean):
    def begin(self) -> None:
        self.version = 1
        self.initialize(1)

    def after_initialize(self, result: Any) -> None:
        if result["protocolVersion"] == 1:
            super().after_initialize(result)
        else:
            self.lines.leave()


def test_a_client_of_version_1_is_not_accused() -> None:
    judged = anyio.run(judge, OnlyVersion1, CASES)
    other = {case.id: case.reason for case in judged.cases if case.verdict is not Verdict.NOT_APPLICABLE}
    assert set(other) == {case.id for case in CASES if case.whole_run}
    assert set(other.values()) == {""}


@pytest.fixture(scope="module")
def ours() -> Iterator[Prefork]:
    """Starts clients on the package."""
    with prefork(*RUNTIME, "acp_server.client") as started:
        yield started


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_our_client_library_keeps_every_rule(backend: str, ours: Prefork) -> None:
    command = [*OURS, backend, "{agent}", "--protocol-2"]
    setting = Setting(command, PROFILE, Pace(12.0), start=ours.start)
    judged = anyio.run(partial(run, setting, list(CASES), jobs=2))
    assert {case.id: case.reason for case in judged.cases if case.verdict is not Verdict.PASS} == {}
