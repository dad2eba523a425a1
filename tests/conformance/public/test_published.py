"""The page of results has a row for each public agent, with which a run of today can be compared."""

from pathlib import Path

import pytest

from acp_conformance.core.result import Verdict
from acp_conformance.report import jsonfile
from tests.conformance.public import published
from tests.conformance.public.agents import AGENTS
from tests.conformance.report.runs import every_verdict


@pytest.mark.parametrize("name", AGENTS)
def test_each_public_agent_has_a_row_of_its_own(name: str) -> None:
    assert min(published.published(name)) >= 0


def test_a_verdict_that_is_not_on_the_page_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = every_verdict()
    jsonfile.write(run, tmp_path / "run.json")
    monkeypatch.setattr(published, "published", lambda name: published.found(run))
    assert published.main("opencode", str(tmp_path / "run.json")) == 0
    monkeypatch.setattr(published, "published", lambda name: (0, 0))
    assert published.main("opencode", str(tmp_path / "run.json")) == 1
    accused = [case.id for case in run.cases if case.verdict in (Verdict.FAIL, Verdict.WARN)]
    told = capsys.readouterr().err
    assert accused
    assert all(f" {id}: " in told for id in accused)
