"""Several runs beside each other."""

import re
import unicodedata

import pytest

from acp_conformance.core.result import Verdict
from acp_conformance.report import table
from tests.conformance.report.runs import hostile, result, run

FIRST = run(result("ids/a", Verdict.FAIL, "no"), result("ids/b"), result("turns/c", Verdict.WARN))
SECOND = run(result("ids/a"), result("ids/b"), subject={"name": "other", "version": "3", "protocolVersion": 1})


def test_only_rules_that_a_run_breaks_have_a_row_and_the_others_are_counted() -> None:
    shown = table.table([FIRST, SECOND])
    assert [row.case.id for row in shown.rows] == ["ids/a", "turns/c"]
    assert shown.kept == 1
    assert [row.cell(0) for row in shown.rows] == ["failed", "warned"]
    assert [row.cell(1) for row in shown.rows] == ["passed", "not in this run"]


def test_as_text_each_subject_has_a_number_and_each_rule_a_line() -> None:
    assert table.as_text(table.table([FIRST, SECOND])).splitlines() == [
        "[1] sample 1.2 (protocol 1): 1 failed, 1 warned, 1 passed; 3 of the 3 cases that apply were tried",
        "[2] other 3 (protocol 1): 2 passed; 2 of the 2 cases that apply were tried",
        "",
        "         [1]     [2]",
        "ids/a    failed  passed",
        "turns/c  warned  not in this run",
        "",
        "1 more rules are broken by none.",
    ]


def test_as_markdown_a_rule_leads_to_its_section() -> None:
    text = table.as_markdown(table.table([FIRST, SECOND]))
    address = "https://agentclientprotocol.com/protocol/v1/prompt-turn#cancellation"
    assert f"| The rule of a is kept. [MUST]({address}) | failed | passed |" in text


def test_as_a_page_it_runs_nothing() -> None:
    page = table.as_html(table.table([FIRST, SECOND]))
    assert "default-src 'none'" in page
    assert '<td class="wrong">failed</td>' in page
    assert "script" not in page


@pytest.mark.parametrize("render", [table.as_text, table.as_markdown, table.as_html])
def test_what_a_subject_says_steers_nothing(render: object) -> None:
    assert callable(render)
    shown = table.table([hostile(), SECOND])
    text = str(render(shown))
    assert not any(unicodedata.category(each) in ("Cc", "Cf", "Cs") for each in text if each != "\n")
    if render is not table.as_text:
        assert not re.search(r"(?<!\\)<script", text)


def test_without_a_broken_rule_there_is_no_table() -> None:
    assert table.as_text(table.table([SECOND, SECOND])).endswith("\n2 more rules are broken by none.\n")


def test_agents_and_clients_are_not_compared() -> None:
    with pytest.raises(ValueError, match="judge agents, and others clients"):
        table.table([FIRST, run(kind="client")])
