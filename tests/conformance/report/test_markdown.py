"""The summary for pull requests: the problems in a table, and nothing of the subject's text is mark-up."""

import re

from acp_conformance.core.result import Verdict
from acp_conformance.report import markdown
from tests.conformance.report.runs import every_verdict, hostile, result, run


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| |", "| ---"))]


def test_the_problems_are_listed_worst_first_and_the_rest_is_counted() -> None:
    text = markdown.render(every_verdict())
    assert [row.split(" | ")[0] for row in rows(text)] == ["| could not run", "| failed", "| warned"]
    assert "1 passed" in text


def test_a_fault_says_how_many_cases_were_not_reached_because_of_it() -> None:
    judged = run(
        result("a/dies", Verdict.FAIL, "it ends"),
        result("a/one", Verdict.UNREACHED, "it ends", root="a/dies"),
        result("a/two", Verdict.UNREACHED, "it ends", root="a/dies"),
    )
    (row,) = rows(markdown.render(judged))
    assert "2 cases were not reached because of it" in row
    (row,) = rows(markdown.render(run(*judged.cases[:2])))
    assert "1 case was not reached because of it" in row


def test_a_run_without_problems_has_no_table() -> None:
    assert rows(markdown.render(run(result("a/b")))) == []


def test_what_a_subject_says_is_no_mark_up() -> None:
    text, links = re.subn(r"(?<!\\)\]\(https://agentclientprotocol[^)]*\)", "", markdown.render(hostile()))
    assert re.findall(r"(?<!\\)[<>`\[\]]", text) == ["["] * links  # the suite's own links
    assert all(row.count(" | ") == 4 for row in rows(text))
    assert "https://example" not in markdown.render(run(result("a/b", Verdict.FAIL, "https://example.com or @someone")))


def test_a_rule_leads_to_its_section() -> None:
    text = markdown.render(run(result("a/b", Verdict.FAIL, "no")))
    assert "](https://agentclientprotocol.com/protocol/v1/prompt-turn#cancellation)" in text


def test_many_problems_are_cut_and_counted() -> None:
    text = markdown.render(run(*(result(f"a/case-{n}", Verdict.FAIL, "no") for n in range(80))))
    assert len(rows(text)) == 50
    assert "30 more problems" in text
