"""How cases are run: what becomes of mistakes, slowness, shared processes, and a fault that many cases meet."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from acp_conformance.agent.cases import load
from acp_conformance.agent.run import AgentRun
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import CHOICE, MUST, SHOULD, Case, Registry, fail
from acp_conformance.core.process import Process
from acp_conformance.core.result import CaseResult, Run, Verdict
from acp_conformance.report.terminal import Terminal
from tests.conformance.fuzz.agent import Over, SmallAgent, error
from tests.conformance.fuzz.agents import PROFILE, InMemory

BACKENDS = ["asyncio", "trio"]


class Started:
    """Starts agents in memory, and counts them."""

    def __init__(self, make: Callable[[], SmallAgent] = SmallAgent) -> None:
        self.count = 0
        self._make = make

    @asynccontextmanager
    async def __call__(
        self, command: Sequence[str], *, env: Mapping[str, str], grace: float, cwd: str | None = None
    ) -> AsyncIterator[Process]:
        self.count += 1
        yield cast("Process", InMemory(self._make()))


def judge(cases: Sequence[Case], started: Started | None = None, backend: str = "asyncio", **options: Any) -> Run:
    run = AgentRun(["small"], PROFILE, timeout=options.pop("timeout", 0.4), start=started or Started(), **options)
    return anyio.run(run.run, cases, backend=backend)


def by_id(run: Run) -> dict[str, CaseResult]:
    return {case.id: case for case in run.cases}


def a_case(function: Callable[[Agent], Any], **options: Any) -> Case:
    registry = Registry("agent")
    id = options.pop("id", "tests/a-case")
    function.__doc__ = function.__doc__ or "A rule."
    options = {"level": MUST, "source": "tests", "section": "tests", **options}
    registry.case(id, **options)(function)
    return registry[id]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mistake_in_a_case_is_an_error_of_the_suite_and_the_other_cases_are_judged(backend: str) -> None:
    async def wrong(agent: Agent) -> None:
        raise KeyError("a mistake")

    run = judge([a_case(wrong), *load().matching(["ids/zero"])], backend=backend)
    assert [case.verdict for case in run.cases] == [Verdict.SUITE_ERROR, Verdict.PASS]
    assert "KeyError: 'a mistake'" in run.cases[0].reason
    assert run.exit_code() == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mistake_while_the_subject_is_answered_ends_that_case_alone(backend: str) -> None:
    async def wrong(agent: Agent) -> None:
        agent.on("fs/read_text_file", lambda _request: 1 / 0)
        await (await agent.prompt(await agent.session(), "read")).answer()

    run = judge([a_case(wrong), *load().matching(["ids/zero"])], backend=backend)
    assert [case.verdict for case in run.cases] == [Verdict.SUITE_ERROR, Verdict.PASS]
    assert run.cases[0].transcript


PARAMS: Sequence[Mapping[str, Any]] = (
    {"path": "/a", "line": "1"},
    {"path": "/a", "line": 1.5},
    {"path": "/a\0b"},
    {"path": "/" + "x" * 5000},
    {"path": "/\ud800"},
    {"path": ["/a"]},
    {"path": "a"},
    {},
)


@pytest.mark.parametrize("params", PARAMS, ids=range(len(PARAMS)))
def test_params_that_do_not_fit_are_refused_before_the_editor_acts_on_them(params: Mapping[str, Any]) -> None:
    class Asks(SmallAgent):
        def _ask(self, prompt: Any, session: str, method: str, _: Any) -> Any:
            return super()._ask(prompt, session, method, params)

    async def reads(agent: Agent) -> None:
        await (await agent.prompt(await agent.session(), "read")).answer()
        sent = [line["text"] for line in agent.transcript.lines() if line["from"] == "suite"]
        assert any('"error":{"code":-32' in text for text in sent)

    (case,) = judge([a_case(reads)], Started(Asks)).cases
    assert case.verdict is Verdict.PASS, case


FORM = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}


@pytest.mark.parametrize(
    ("answers", "asked", "answer"),
    [
        ({"color": "red", "count": 3}, {"mode": "form"}, '"result":{"action":"accept","content":{"color":"red"}}'),
        ({"count": 3}, {"mode": "form"}, '"result":{"action":"decline"}'),
        ({"color": "red"}, {"mode": "url", "elicitationId": "1", "url": "https://a.example"}, '"code":-32602'),
        (None, {"mode": "form"}, '"code":-32601'),
    ],
)
def test_the_profile_says_what_the_user_fills_into_forms(
    answers: Mapping[str, Any] | None, asked: Mapping[str, Any], answer: str
) -> None:
    class AsksForms(SmallAgent):
        def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
            question = {**asked, "message": "Which?", "requestedSchema": FORM}
            yield self._ask(id, session, "elicitation/create", question)

    async def asks(agent: Agent) -> None:
        await (await agent.prompt(await agent.session(), "quick")).answer()
        sent = [line["text"] for line in agent.transcript.lines() if line["from"] == "suite"]
        assert ('"elicitation":{"form":{}}' in sent[0]) is (answers is not None)
        assert answer in sent[-1]

    known = replace(PROFILE, answers=answers)
    run = AgentRun(["small"], known, timeout=0.4, start=Started(AsksForms))
    (case,) = anyio.run(run.run, [a_case(asks)]).cases
    assert case.verdict is Verdict.PASS, case


class ModeIsAnOption(SmallAgent):
    """Its mode is one of its options as well."""

    def _answer(self, id: Any, method: Any, params: Any) -> Iterator[Any]:
        (answer,) = super()._answer(id, method, params)
        name = answer.get("result", {}).get("sessionId") or params.get("sessionId")
        if method in ("session/set_mode", "session/set_config_option"):
            vars(self)[name] = params.get("modeId") or params["value"]
        values = [{"value": value, "name": value} for value in ("ask", "code")]
        option = {"id": "mode", "name": "Mode", "type": "select", "options": values}
        listed = [{**option, "currentValue": vars(self).get(name, "ask")}]
        if method in ("session/new", "session/resume", "session/set_config_option"):
            answer = {"jsonrpc": "2.0", "id": id, "result": {**answer.get("result", {}), "configOptions": listed}}
        yield answer


def test_a_mode_that_the_profile_sets_and_the_options_show_is_not_taken_for_that_of_another_session() -> None:
    known = replace(PROFILE, mode="code")
    run = AgentRun(["small"], known, timeout=0.4, start=Started(ModeIsAnOption))
    (case,) = anyio.run(run.run, load().matching(["sessions/option-of-one-session"])).cases
    assert case.verdict is Verdict.PASS, case.reason


class DiesAtAnArray(SmallAgent):
    def take(self, message: Any) -> Iterator[Any]:
        if isinstance(message, list):
            raise Over
        return super().take(message)


def test_one_fault_is_one_accusation_and_the_other_cases_say_because_of_what() -> None:
    run = judge(load().matching(["batch"]), Started(DiesAtAnArray))
    verdicts = {case.id: (case.verdict, case.root) for case in run.cases}
    assert verdicts.pop("batch/survives") == (Verdict.WARN, "")
    assert set(verdicts.values()) == {(Verdict.UNREACHED, "batch/survives")}


@pytest.mark.parametrize(("name", "verdict"), [("gating/write", Verdict.UNREACHED), ("tests/a-case", Verdict.FAIL)])
def test_what_a_case_fails_for_is_not_told_again_by_that_of_the_whole_run(name: str, verdict: Verdict) -> None:
    async def writes(agent: Agent) -> None:
        await agent.initialize(fs={})
        await (await agent.prompt(await agent.session(), "write")).answer()
        fail("it writes")

    run = judge([a_case(writes, id=name), *load().matching(["gating/never-unannounced"])])
    assert [case.verdict for case in run.cases] == [Verdict.FAIL, verdict]
    assert run.cases[1].root == (name if verdict is Verdict.UNREACHED else "")


def test_arrays_that_are_never_answered_are_told_once() -> None:
    class Silent(SmallAgent):
        def take(self, message: Any) -> Iterator[Any]:
            return iter(()) if isinstance(message, list) else super().take(message)

    names = ["one-array", "each-request", "no-response-to-notifications", "empty"]
    told_once(judge(load().matching([f"batch/{name}" for name in names]), Started(Silent)), "batch/one-array")


def test_sessions_that_cannot_be_loaded_are_told_of_once() -> None:
    class LoadsNothing(SmallAgent):
        def _answer(self, id: Any, method: Any, params: Any) -> Iterator[Any]:
            return iter([error(id, -32603)]) if method == "session/load" else super()._answer(id, method, params)

    names = ["load-replays-user", "load-replays-agent", "load-replays-first", "loaded-goes-on", "load-twice-the-same"]
    run = judge(load().matching([f"sessions/{name}" for name in names]), Started(LoadsNothing))
    told_once(run, "sessions/load-replays-user")


def told_once(run: Run, root: str) -> None:
    verdicts = {case.id: (case.verdict, case.root) for case in run.cases}
    assert verdicts.pop(root)[0] in (Verdict.FAIL, Verdict.WARN)
    assert len(verdicts) > 2
    assert set(verdicts.values()) == {(Verdict.UNREACHED, root)}


def test_without_the_case_that_stands_for_it_a_case_speaks_for_itself() -> None:
    run = judge(load().matching(["batch/empty"]), Started(DiesAtAnArray))
    assert [(case.verdict, case.root) for case in run.cases] == [(Verdict.WARN, "")]


class MakesNoSession(SmallAgent):
    def take(self, message: Any) -> Iterator[Any]:
        if message["method"] == "session/new":
            yield {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "no"}}
        else:
            yield from super().take(message)


def test_where_no_session_is_made_only_the_case_about_that_fails() -> None:
    run = judge(load().matching(["turns", "sessions/new", "sessions/set-mode"]), Started(MakesNoSession))
    verdicts = {case.id: (case.verdict, case.root) for case in run.cases}
    assert verdicts.pop("sessions/new") == (Verdict.FAIL, "")
    assert set(verdicts.values()) == {(Verdict.UNREACHED, "sessions/new")}


def test_without_a_session_a_case_that_is_run_by_itself_is_not_tried() -> None:
    run = judge(load().matching(["turns/stop-reason"]), Started(MakesNoSession))
    assert [case.verdict for case in run.cases] == [Verdict.SKIP]
    assert "session/new was answered with an error" in run.cases[0].reason
    assert run.exit_code() == 2


def test_an_answer_after_the_suite_has_given_up_is_slow_and_breaks_no_rule() -> None:
    looks = iter([None])

    async def late(agent: Agent) -> None:
        await agent.initialize()
        await agent.wait_for(lambda: next(looks, True), "the answer", within=0.0)

    run = judge([a_case(late)])
    assert [case.verdict for case in run.cases] == [Verdict.SLOW]
    assert run.exit_code() != 1


def test_every_wait_follows_from_the_time_that_the_first_start_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=iter(range(0, 10_000, 29)).__next__)
    monkeypatch.setattr("acp_conformance.agent.probe.time", clock)
    patience: list[tuple[float, float]] = []

    async def looks(agent: Agent) -> None:
        patience.append((agent.start_patience, agent.patience))

    judge([a_case(looks)])
    assert patience == [(3 * 29, 5 * 29)]


@pytest.mark.parametrize("level", [CHOICE, SHOULD, MUST])
def test_a_choice_can_fail_where_no_answer_comes(level: Any) -> None:
    class Silent(SmallAgent):
        def take(self, message: Any) -> Iterator[Any]:
            return iter(()) if message["method"] == "session/prompt" else super().take(message)

    async def asks(agent: Agent) -> None:
        await (await agent.prompt(await agent.session(), "quick")).answer()

    (case,) = judge([a_case(asks, level=level)], Started(Silent)).cases
    assert case.verdict is (Verdict.WARN if level is SHOULD else Verdict.FAIL)


def test_cases_share_a_process_and_what_goes_wrong_there_is_judged_again_in_a_fresh_one() -> None:
    served: list[int] = []

    async def rule(agent: Agent, *, first_only: bool) -> None:
        await agent.initialize()
        served.append(started.count)
        if first_only and len(agent.received) > 1:
            fail("another case was served before")

    def shared(name: str, *, first_only: bool = False) -> Case:
        function = partial(rule, first_only=first_only)
        function.__doc__ = "A rule."
        return a_case(function, id=f"tests/{name}", shared=True)

    started = Started()

    async def unknown(agent: Agent) -> None:
        await agent.fence()

    cases = [shared("a"), a_case(unknown, id="tests/b", shared=True), shared("c", first_only=True), shared("d")]
    run = judge(cases, started)
    assert {case.verdict for case in run.cases} == {Verdict.PASS}
    assert started.count == 4  # the probe, one for a to c, one for c alone, one for d


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_is_stopped_has_its_verdicts_so_far(backend: str) -> None:
    class StopsAtTheFirst(Terminal):
        def finished(self, result: CaseResult) -> None:
            run.stop()

    run = AgentRun(["small"], PROFILE, timeout=0.4, start=Started(), jobs=1)
    cases = load().matching(["initialize/answers", "initialize/meta", "initialize/agent-info"])
    judged = anyio.run(run.run, cases, StopsAtTheFirst(io.StringIO()), backend=backend)
    assert sorted(case.verdict for case in judged.cases) == [Verdict.PASS, Verdict.SKIP, Verdict.SKIP]
    assert judged.interrupted
    assert judged.exit_code() == 130


def test_a_profile_logs_in_and_chooses_options_before_a_case_begins() -> None:
    class Chosen(SmallAgent):
        def take(self, message: Any) -> Iterator[Any]:
            heard.append((message["method"], message.get("params")))
            if message["method"] in ("authenticate", "session/set_config_option"):
                result = {"configOptions": []} if message["method"] != "authenticate" else {}
                yield {"jsonrpc": "2.0", "id": message["id"], "result": result}
            else:
                yield from super().take(message)

    async def makes(agent: Agent) -> None:
        heard.clear()
        await agent.session()

    heard: list[tuple[str, Any]] = []
    profile = replace(PROFILE, authenticate="key", options={"model": "scripted"})
    run = AgentRun(["small"], profile, timeout=0.4, start=Started(Chosen))
    (case,) = anyio.run(run.run, [a_case(makes)]).cases
    assert case.verdict is Verdict.PASS, case
    assert [method for method, _ in heard] == ["initialize", "authenticate", "session/new", "session/set_config_option"]
    assert heard[1][1] == {"methodId": "key"}
    assert (heard[3][1]["configId"], heard[3][1]["value"]) == ("model", "scripted")


def test_the_line_that_breaks_a_rule_is_named() -> None:
    async def wants_an_error(agent: Agent) -> None:
        await agent.fence()
        await (await agent.request("session/new", {"cwd": "/tmp", "mcpServers": []})).error()

    [result] = judge([a_case(wants_an_error)]).cases
    assert result.verdict is Verdict.FAIL
    assert result.guilty is not None
    assert '"sessionId"' in result.transcript[result.guilty]["text"]


def test_where_nothing_came_no_line_is_named() -> None:
    async def wants_more(agent: Agent) -> None:
        await agent.next_request("fs/read_text_file")

    [result] = judge([a_case(wants_more)]).cases
    assert (result.verdict, result.guilty) == (Verdict.FAIL, None)


def test_what_is_announced_and_not_there_is_one_accusation() -> None:
    class ClosesNothing(SmallAgent):
        def _answer(self, id: Any, method: Any, params: Any) -> Iterator[Any]:
            if method == "session/close":
                return iter([{"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}])
            return super()._answer(id, method, params)

    found = by_id(judge(load().matching(["gating/has-close", "sessions", "terminals"]), Started(ClosesNothing)))
    refused = [case for case in found.values() if "session/close" in case.reason]
    assert [case.id for case in refused if case.verdict is not Verdict.UNREACHED] == ["gating/has-close"]
    assert {case.root for case in refused if case.verdict is Verdict.UNREACHED} == {"gating/has-close"}


class SilentAtExtensions(SmallAgent):
    def _answer(self, id: Any, method: Any, params: Any) -> Iterator[Any]:
        return iter(()) if method.startswith("_") else super()._answer(id, method, params)


def test_silence_at_requests_of_extensions_is_one_accusation() -> None:
    ids = [f"ids/{what}" for what in ("integer", "zero", "digits", "string", "types-apart")]
    found = by_id(judge(load().matching(["envelope/*extension*", *ids]), Started(SilentAtExtensions)))
    assert found.pop("envelope/extension-answered").verdict is Verdict.FAIL
    assert found.keys() == {"envelope/unknown-extension", *ids}
    assert {(case.verdict, case.root) for case in found.values()} == {
        (Verdict.UNREACHED, "envelope/extension-answered")
    }


def test_without_that_case_each_case_tells_of_the_silence_itself() -> None:
    run = judge(load().matching(["ids/zero"]), Started(SilentAtExtensions))
    assert [case.verdict for case in run.cases] == [Verdict.FAIL]


def shared_case(id: str, function: Callable[[Agent], Any], **options: Any) -> Case:
    return a_case(function, id=id, shared=True, **options)


async def answered(agent: Agent) -> None:
    await agent.initialize()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_quick_run_has_one_process_for_the_shared_cases_of_all_groups(backend: str) -> None:
    cases = [shared_case(f"group-{n}/case", answered) for n in range(4)]
    started = Started()
    assert {case.verdict for case in judge(cases, started, backend, quick=True).cases} == {Verdict.PASS}
    assert started.count == 2  # the probe is the first


def test_what_fails_in_company_is_judged_alone_in_a_quick_run_and_the_rest_goes_on_in_the_same_process() -> None:
    processes: dict[str, set[int]] = {}

    def fails_in(company: bool) -> Callable[[Agent], Any]:
        async def case(agent: Agent) -> None:
            await agent.initialize()
            processes.setdefault("first", set()).add(id(agent))
            if agent.brief is company:
                fail("no")

        return case

    async def last(agent: Agent) -> None:
        await answered(agent)
        processes["last"] = {id(agent)}

    cases = [shared_case("a/first", fails_in(True)), shared_case("b/last", last)]
    assert [case.verdict for case in judge(cases, quick=True).cases] == [Verdict.PASS, Verdict.PASS]
    assert processes["last"] < processes["first"]


def test_a_quick_run_does_not_wait_again_for_what_proves_nothing() -> None:
    tried: list[str] = []

    async def root(agent: Agent) -> None:
        fail("no")

    async def behind(agent: Agent) -> None:
        tried.append("behind")
        fail("no")

    cases = [shared_case("a/root", root), shared_case("a/behind", behind, after="a/root")]
    found = by_id(judge(cases, quick=True))
    assert found["a/root"].verdict is Verdict.FAIL
    assert (found["a/behind"].verdict, found["a/behind"].root) == (Verdict.UNREACHED, "a/root")
    assert tried == ["behind"]


def test_quick_cases_start_no_process_of_their_own() -> None:
    quick = [case for case in load() if case.quick]
    assert len(quick) > 150
    assert all(case.shared or case.whole_run for case in quick)
    assert "profile/situation" not in {case.id for case in quick}


def test_a_run_says_how_long_it_will_take_once_the_start_was_measured() -> None:
    told: list[float] = []
    progress = cast("Any", SimpleNamespace(begin=lambda _: None, started=lambda _: None, end=lambda _: None))
    progress.finished, progress.expect = (lambda _: None), told.append
    run = AgentRun(["small"], PROFILE, timeout=0.4, start=Started())
    anyio.run(run.run, load().matching(["ids/zero"]), progress)
    (seconds,) = told
    assert seconds > 0
