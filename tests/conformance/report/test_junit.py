"""The report for continuous integration: XML that any parser takes, with the format's own words."""

from xml.etree import ElementTree as ET

from acp_conformance.core.result import Verdict
from acp_conformance.report import junit
from tests.conformance.report.runs import HOSTILE, every_verdict, hostile, line, result, run


def case_named(root: ET.Element, name: str) -> ET.Element:
    (found,) = [case for case in root.iter("testcase") if case.get("name") == name]
    return found


def properties(element: ET.Element) -> dict[str, str]:
    return {each.get("name", ""): each.get("value", "") for each in element.findall("properties/property")}


def test_a_group_is_a_suite_with_true_counts() -> None:
    root = ET.fromstring(junit.render(every_verdict()))
    assert root.tag == "testsuites"
    assert [
        (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped"))
        for suite in root.findall("testsuite")
    ] == [
        ("conformance.agent.ids", "2", "1", "0", "0"),
        ("conformance.agent.turns", "4", "0", "0", "2"),
        ("conformance.agent.terminals", "2", "0", "1", "1"),
    ]
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("8", "1", "1", "3")
    assert root[0].get("timestamp") == "2026-01-02T03:04:05"
    assert properties(root[0])["subject"] == "sample 1.2 (protocol 1)"


def test_each_verdict_is_told_in_the_formats_words() -> None:
    root = ET.fromstring(junit.render(every_verdict()))
    told = {case.get("name"): [each.tag for each in case if each.tag != "properties"] for case in root.iter("testcase")}
    assert told == {
        "a-pass": [],
        "a-fail": ["failure"],
        "a-warning": ["system-out"],
        "a-choice": ["system-out"],
        "a-skip": ["skipped"],
        "another-skip": ["skipped"],
        "not-there": ["skipped"],
        "an-error": ["error"],
    }
    assert case_named(root, "a-choice").findtext("system-out") == "choice: the second prompt is refused\n"
    (failure,) = case_named(root, "a-fail").findall("failure")
    assert failure.get("message") == 'the request "7" was answered with 7'
    assert failure.text == (
        "The rule of a-fail is kept.\nMUST, ACP v1, Prompt Turn, Cancellation\n"
        "The Agent MUST respond to the original session/prompt request with the cancelled stop reason, and MUST catch "
        "the errors of what it aborts. Updates come before that response. A cancel is for an ongoing prompt turn.\n\n"
        'the request "7" was answered with 7\n'
        "Change: Return an id as the same JSON value, and key open requests by its type and value."
    )
    (skipped,) = case_named(root, "not-there").findall("skipped")
    assert skipped.get("message") == "not applicable: session/load is not announced"


def test_level_section_and_verdict_are_properties() -> None:
    found = properties(case_named(ET.fromstring(junit.render(every_verdict())), "a-warning"))
    assert found == {
        "title": "The rule of a-warning is kept.",
        "level": "SHOULD",
        "source": "ACP v1",
        "section": "Prompt Turn, Cancellation",
        "protocol": "1",
        "verdict": "warn",
    }


def test_a_failure_shows_the_conversation_and_standard_error() -> None:
    wire = [line("out", "suite", 0), line("in", "subject", 1.5)]
    root = ET.fromstring(junit.render(run(result("a/b", Verdict.FAIL, "no", transcript=wire, stderr="oh\nno\n"))))
    assert root.findtext(".//system-out") == "   0.000  >  out\n   1.500  <  in"
    assert root.findtext(".//system-err") == "oh\nno\n"


def test_a_flood_is_cut_in_its_middle() -> None:
    wire = [line(f"line {number}") for number in range(5000)]
    root = ET.fromstring(junit.render(run(result("a/b", Verdict.FAIL, "no", transcript=wire))))
    shown = root.findtext(".//system-out") or ""
    assert len(shown.splitlines()) == 201
    assert "line 99\n... the rest is in the JSON report ...\n   0.250  <  line 4900\n" in shown


def test_whatever_a_subject_says_the_document_is_xml_and_says_it_back() -> None:
    root = ET.fromstring(junit.render(hostile()))
    assert len(list(root.iter("testcase"))) == len(hostile().cases)
    (failure,) = case_named(root, "case-fail").findall("failure")
    message = failure.get("message") or ""
    assert message.startswith("<script>alert(1)</script> </details></style>\"' onload=x &amp; ]]> --> \\x1b[2J\\x1b]0;")
    assert "\\ud800 \\ufffe" in message
    assert "漢字" in message
    assert {each.tag for each in root.iter()} == {
        "testsuites", "testsuite", "testcase", "properties", "property",
        "failure", "error", "skipped", "system-out", "system-err",
    }  # fmt: skip
    assert HOSTILE not in message
