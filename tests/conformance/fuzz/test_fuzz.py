"""A subject that answers anything is judged: the suite neither raises nor hangs, and blames the subject, not itself."""

import io
from pathlib import Path

import anyio
import pytest

from acp_conformance.core.result import Run, Verdict
from acp_conformance.report import html, jsonfile, junit
from acp_conformance.report.terminal import Terminal
from tests.conformance.fuzz import agents, clients

AT_ONCE = 300
"""Conversations in CI; `python -m tests.conformance.fuzz` has 10,000."""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_agent_that_answers_anything_gets_verdicts_and_reports(backend: str, tmp_path: Path) -> None:
    run, _ = anyio.run(agents.judge, 7, AT_ONCE // 2, backend=backend)
    blames_the_subject(run, tmp_path)


def test_a_client_that_writes_anything_gets_verdicts_and_reports(tmp_path: Path) -> None:
    run, _ = anyio.run(clients.judge, 7, AT_ONCE // 2)
    blames_the_subject(run, tmp_path)


def blames_the_subject(run: Run, tmp_path: Path) -> None:
    assert [(case.id, case.reason) for case in run.cases if case.verdict is Verdict.SUITE_ERROR] == []
    assert {Verdict.PASS, Verdict.FAIL} <= {case.verdict for case in run.cases}
    for report in (html, jsonfile, junit):
        report.write(run, tmp_path / report.__name__)
    Terminal(io.StringIO()).end(run)
