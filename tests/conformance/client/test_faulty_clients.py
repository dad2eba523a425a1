"""Every fault is caught by the case that is for it, and a client without a fault passes every case.

All faulty clients that the chosen tests need are judged together, before the first test: most of the time they wait for
what never comes.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial

import anyio
import pytest

from acp_conformance.client.registry import client_cases
from acp_conformance.core.case import Level, Verdict
from acp_conformance.core.process import Start
from acp_conformance.core.result import CaseResult
from tests.prefork import Prefork, prefork

from .table import FAULTS, FOLDER, PLAYED, SEEN, SLOW, UNBOUNDED, UNUSUAL, WHOLE_RUN, command, judged

pytestmark = pytest.mark.anyio

CLIENTS_AT_ONCE = 8
SECONDS_OF_A_FAULT = 1.5


@pytest.fixture
def anyio_backend() -> str:
    """The suite runs on asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="module")
def clients() -> Iterator[Prefork]:
    """Starts the clients of the folder."""
    with prefork(*(path.stem for path in sorted(FOLDER.glob("[a-z]*.py"))), path=FOLDER) as started:
        yield started


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, clients: Prefork) -> Mapping[str, Mapping[str, CaseResult]]:
    """What each faulty client that a chosen test asks for is found to do, by the name of the client."""
    names = {item.name for item in request.session.items if item.path == request.path}
    wanted = {fault: (id,) for fault, id in FAULTS.items()} | SEEN
    chosen = {fault: ids for fault, ids in wanted.items() if any(f"[{fault}-" in name for name in names)}
    return anyio.run(partial(judge_all, chosen, clients.start))


async def judge_all(chosen: Mapping[str, tuple[str, ...]], start: Start) -> Mapping[str, Mapping[str, CaseResult]]:
    found: dict[str, Mapping[str, CaseResult]] = {}
    slots = anyio.Semaphore(CLIENTS_AT_ONCE)

    async def judge(fault: str, ids: tuple[str, ...]) -> None:
        async with slots:
            found[fault] = await judged(command(fault), *ids, patience=SECONDS_OF_A_FAULT, start=start)

    async with anyio.create_task_group() as tasks:
        for fault, ids in chosen.items():
            tasks.start_soon(judge, fault, ids)
    return found


@pytest.mark.parametrize("group", PLAYED)
async def test_a_client_without_a_fault_passes_every_case(group: str, clients: Prefork) -> None:
    results = await judged(command("clean"), group, *WHOLE_RUN, patience=10, start=clients.start)
    wrong = {
        id: (result.verdict, result.reason)
        for id, result in results.items()
        if result.verdict is not (Verdict.CHOICE if result.level is Level.CHOICE else Verdict.PASS)
    }
    if group == "sessions":  # it knows no way to log in
        assert wrong.pop("sessions/authenticates-as-offered")[0] is Verdict.CHOICE
        assert wrong.pop("sessions/terminal-login-is-no-request")[0] is Verdict.NOT_APPLICABLE
    if group == "requests":  # it knows no forms
        assert wrong.pop("requests/elicitation")[0] is Verdict.NOT_APPLICABLE
    assert wrong == {}


@pytest.mark.parametrize(("fault", "id"), FAULTS.items())
def test_a_fault_is_caught_by_its_case(fault: str, id: str, found: Mapping[str, Mapping[str, CaseResult]]) -> None:
    result = found[fault][id]
    assert (result.verdict, bool(result.reason)) == (client_cases[id].broken(), True), result


@pytest.mark.parametrize(("fault", "ids"), SEEN.items())
def test_a_fault_in_any_message_is_caught_by_the_case_of_the_whole_run(
    fault: str, ids: tuple[str, str], found: Mapping[str, Mapping[str, CaseResult]]
) -> None:
    rule, played = ids
    result = found[fault][rule]
    assert result.verdict is client_cases[rule].broken(), result
    assert played in result.reason


def test_every_rule_has_a_fault_that_breaks_it() -> None:
    binding = {case.id for case in client_cases if case.level is not Level.CHOICE}
    assert binding - set(FAULTS.values()) - {rule for rule, _ in SEEN.values()} == set()


def test_every_faulty_client_is_in_a_table() -> None:
    names: set[str] = set()
    for path in FOLDER.glob("[a-z]*.py"):
        for name in re.findall(r"^class ([A-Z]\w+)\(\w+\)", path.read_text("utf-8"), re.M):
            names.add(f"{path.stem}/" + re.sub(r"(?<=.)(?=[A-Z])", "-", name).lower())
    names -= {name for name in names if name.startswith("clean/")}
    assert names == {*FAULTS, *SEEN, *SLOW, *UNBOUNDED, *UNUSUAL}


@pytest.mark.parametrize("name", UNUSUAL)
async def test_a_client_that_does_the_right_thing_in_another_way_is_not_blamed(name: str, clients: Prefork) -> None:
    ids = ["initialize/first", "permission/cancelled", "closing/agent-dies-in-a-turn", "closing/lets-the-agent-go"]
    ids += ["closing/ends-an-agent-that-stays", "schema/params"]
    results = await judged(command(name), *ids, start=clients.start)
    assert {id: (result.verdict, result.reason) for id, result in results.items()} == dict.fromkeys(
        results, (Verdict.PASS, "")
    )


@pytest.mark.parametrize("name", UNBOUNDED)
async def test_a_client_that_writes_without_end_is_judged_all_the_same(name: str, clients: Prefork) -> None:
    ids = ("initialize/first", "updates/many", "closing/lets-the-agent-go")
    results = await judged(command(name), *ids, patience=1, start=clients.start)
    assert results["initialize/first"].verdict is Verdict.PASS
    assert Verdict.ERROR not in {result.verdict for result in results.values()}
