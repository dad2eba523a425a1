"""Each problem is told with what was sent, what came, its sentence, and where it is plain what to change."""

import json
import tomllib
from fnmatch import fnmatchcase
from importlib import resources
from io import StringIO
from xml.etree import ElementTree as ET

import pytest

from acp_conformance.agent import cases as agents
from acp_conformance.agent.v2 import cases as agents_v2
from acp_conformance.client import cases as clients
from acp_conformance.client.v2 import cases as clients_v2
from acp_conformance.core.result import CaseResult, Line, Verdict
from acp_conformance.report import html, junit, markdown
from acp_conformance.report.terminal import Terminal
from acp_conformance.report.told import sent_of
from tests.conformance.report.runs import line, result, run

ADVICE = tomllib.loads((resources.files("acp_conformance.report") / "advice.toml").read_text("utf-8"))
REGISTRIES = {"agent": (agents, agents_v2), "client": (clients, clients_v2)}


def sent(method: str, id: object) -> Line:
    return line(json.dumps({"id": id, "method": method}), "suite")


def broken(**more: object) -> CaseResult:
    wire = [sent("session/list", 3), sent("_conformance/fence", 4), line('{"id":3,"result":{}}')]
    return result("ids/zero", Verdict.FAIL, "it is odd", **{"transcript": wire, "guilty": 2, **more})


def test_what_was_sent_is_the_request_that_the_guilty_line_answers() -> None:
    assert sent_of(broken()) == '{"id": 3, "method": "session/list"}'


def test_what_was_sent_is_the_request_that_was_not_answered() -> None:
    wire = [sent("session/prompt", "3"), sent("session/prompt", 3), sent("session/cancel", 5)]
    missing = result("a/b", Verdict.FAIL, "the answer to session/prompt (id '3') did not come", transcript=wire)
    assert sent_of(missing) == '{"id": "3", "method": "session/prompt"}'


def test_else_what_was_sent_is_the_last_line_that_is_no_fence() -> None:
    assert sent_of(broken(guilty=None)) == '{"id": 3, "method": "session/list"}'
    assert sent_of(result("a/b", Verdict.FAIL, "no", transcript=[line("{", "suite")])) == "{"
    assert sent_of(result("a/b", Verdict.FAIL, "no")) == ""


def shown_in_terminal(*cases: CaseResult) -> str:
    stream = StringIO()
    Terminal(stream, 1000).end(run(*cases))
    return stream.getvalue()


def test_every_report_has_the_sentence_and_what_to_change() -> None:
    judged = run(broken())
    texts = [shown_in_terminal(broken()), markdown.render(judged), html.render(judged), junit.render(judged).decode()]
    for text in texts:
        assert "MUST catch the errors of what it aborts" in text
        assert "Return an id as the same JSON value" in text


def test_reports_without_conversations_have_what_was_sent() -> None:
    assert 'sent: {"id": 3, "method": "session/list"}' in shown_in_terminal(broken())
    assert 'came: {"id":3,"result":{}}' in shown_in_terminal(broken())
    assert "session/list" in markdown.render(run(broken()))


def test_a_cause_is_told_once_with_the_count_of_the_others_below() -> None:
    cases = [broken(cause="ids/zero"), result("a/b", Verdict.FAIL, "x", cause="ids/zero")]
    assert "by the same cause, 1 more: a/b" in shown_in_terminal(*cases)
    assert "by the same cause, 1 more: a/b" in markdown.render(run(*cases))
    root = ET.fromstring(junit.render(run(*cases)))
    assert "Same cause as: ids/zero" in [each.text.splitlines()[-1] for each in root.iter("failure") if each.text]
    assert "Same cause: ids/zero" in html.render(run(*cases))


@pytest.mark.parametrize("kind", ADVICE)
def test_each_advice_is_for_cases_that_exist(kind: str) -> None:
    ids = [case.id for module in REGISTRIES[kind] for case in module.load()]
    idle = [fit for each in ADVICE[kind] for fit in each["cases"] if not any(fnmatchcase(id, fit) for id in ids)]
    assert idle == []
