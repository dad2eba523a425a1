"""The page: whatever a subject said, it is text; nothing is loaded and nothing runs."""

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent.v2 import cases as v2_cases
from acp_conformance.core.result import Line, Run, Verdict
from acp_conformance.report import html
from acp_conformance.report.links import link_to
from acp_conformance.report.words import PROBLEMS, printable
from tests.conformance.report.runs import HOSTILE, every_verdict, hostile, line, result, run

VOID = {"meta", "input"}


class Page(HTMLParser):
    """The elements of a page, with the text right inside each; fails where start and end do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.elements[self._open[-1]][2].append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def attributes(self, name: str) -> Iterator[str]:
        return (value for _, attributes, _ in self.elements if (value := attributes.get(name)) is not None)

    def texts(self, tag: str, name: str | None = None) -> list[str]:
        return [
            "".join(text)
            for each, attributes, text in self.elements
            if each == tag and (name is None or name in (attributes.get("class") or "").split())
        ]


@pytest.fixture(params=[every_verdict(), hostile(), run(subject=None)], ids=["every verdict", "hostile", "empty"])
def shown(request: pytest.FixtureRequest) -> Run:
    return request.param


def test_it_needs_nothing_and_runs_nothing(shown: Run) -> None:
    page = Page(html.render(shown))
    known = {
        "html", "head", "meta", "title", "style", "body", "input", "nav", "label", "b", "header", "h1", "h2", "h3", "p",
        "code", "pre", "main", "table", "caption", "tr", "th", "td", "a", "section", "small", "details", "summary",
        "span", "div", "ol", "li", "mark",
    }  # fmt: skip
    assert {tag for tag, _, _ in page.elements} <= known
    assert {name for _, attributes, _ in page.elements for name in attributes} <= {
        "lang", "charset", "http-equiv", "content", "name", "type", "id", "checked", "for", "class", "href", "scope",
        "aria-label",
    }  # fmt: skip
    known = {link_to(case.source, case.section) for case in shown.cases}
    assert all(href.startswith("#") or href in known for href in page.attributes("href"))
    (style,) = page.texts("style")
    assert "url(" not in style
    assert "@import" not in style


def test_its_policy_allows_its_own_style_sheet_alone(shown: Run) -> None:
    page = Page(html.render(shown))
    (policy,) = [value for value in page.attributes("content") if "default-src" in value]
    (style,) = page.texts("style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_what_a_subject_said_is_there_as_text() -> None:
    page = Page(html.render(hostile()))
    assert set(page.texts("span", "reason")) == {printable(HOSTILE)}
    assert page.texts("code")[1:] == [printable(HOSTILE)] * (2 * len(PROBLEMS))
    assert "\tsecond <script>alert(1)</script>" in page.texts("pre")[0]


def test_the_page_is_utf_8_without_anything_that_steers() -> None:
    text = html.render(hostile())
    text.encode()
    assert not set(text) & {"\x00", "\x1b", "\r", "\x9b", "\u202e", "\u2066", "\u2028", "\ufffe"}


def test_every_square_leads_to_its_case(shown: Run) -> None:
    page = Page(html.render(shown))
    ids = set(page.attributes("id"))
    assert {href[1:] for href in page.attributes("href") if href.startswith("#")} <= ids
    assert len(page.texts("a", "cell")) == len(shown.cases) == len(page.texts("details"))


def test_a_case_says_its_rule_its_verdict_and_its_conversation() -> None:
    wire = [line('{"id":1}', "suite", 0.5), line('{"id":2}', "subject", 1)]
    page = Page(html.render(run(result("ids/a-b", Verdict.WARN, "no title", transcript=wire))))
    assert page.texts("b")[-1] == "The rule of a-b is kept."
    assert page.texts("span", "reason") == ["no title"]
    assert "SHOULD, ACP v1, Prompt Turn, Cancellation" in page.texts("a")
    assert any(href.endswith("/protocol/v1/prompt-turn#cancellation") for href in page.attributes("href"))
    assert "; warned, 0.12 s" in page.texts("p")
    assert page.texts("code")[1:] == ['{"id":1}', '{"id":2}']
    assert page.texts("span", "way") == ["to it", "from it"]
    assert page.texts("span", "at") == ["0.500", "1.000"]


def test_a_flood_is_cut_in_its_middle() -> None:
    wire = [line(f"line {number}") for number in range(100_000)]
    page = Page(html.render(run(result("a/b", Verdict.FAIL, transcript=wire))))
    assert page.texts("li", "gap") == ["99,960 lines are left out; all are in the JSON report"]
    assert page.texts("code")[20:22] == ["line 19", "line 99980"]


def test_the_line_that_breaks_the_rule_is_marked_also_in_a_flood() -> None:
    wire = [line(f"line {number} " + "x" * 3000) for number in range(10_000)]
    page = Page(html.render(run(result("a/b", Verdict.FAIL, transcript=wire, guilty=5000))))
    assert page.texts("mark") == [wire[5000]["text"]]
    assert [text.split()[1] for text in page.texts("code")[22:26]] == ["4996", "4997", "4998", "4999"]
    assert len(page.texts("li", "gap")) == 2
    assert page.texts("code")[1].endswith("more characters)")


def test_what_is_passed_has_no_conversation_and_the_page_says_where_it_is() -> None:
    page = Page(html.render(run(result("a/b", transcript=[line("one"), line("two")]))))
    assert page.texts("li") == []
    assert "What has no conversation here, or not all of it, has it in the JSON report." in page.texts("p")


def test_what_was_not_reached_is_explained_where_it_was_found() -> None:
    cause = result("a/cause", Verdict.FAIL, "it dies", transcript=[line("guilty")], stderr="a trace")
    unreached = result("a/b", Verdict.UNREACHED, "it dies", transcript=[line("one")], stderr="the same trace")
    page = Page(html.render(run(cause, unreached)))
    assert page.texts("code")[1:] == ["guilty"]
    assert page.texts("pre") == ["a trace"]


def whole_run(verdict: Verdict, reason: str, *wire: Line, both: bool = False, **more: object) -> Run:
    """A run of every case for agents, or of those of both versions; each with the same outcome."""
    cases = [*agent_cases.load(), *(v2_cases.load() if both else ())]
    kept = {"transcript": wire, "guilty": len(wire) // 2 if wire else None, **more}
    return run(
        *(result(case.id, verdict, reason, title=case.title, section=case.section, **kept) for case in cases),
        subject={"name": reason, "version": reason, "protocolVersion": 1},
    )


@pytest.mark.parametrize("said", ['"', HOSTILE], ids=["quotes", "hostile"])
def test_no_page_has_more_than_400_kb_whatever_a_subject_says(said: str) -> None:
    flood = [line(said * 400) for _ in range(3)]
    text = html.render(whole_run(Verdict.FAIL, said * 400, *flood, both=True, stderr=said * 400))
    assert len(text.encode()) < 400_000
    Page(text)


@pytest.mark.parametrize("wrong", [1, 30, 60])
def test_the_room_of_a_page_is_shared_by_what_is_wrong(wrong: int) -> None:
    whole = whole_run(Verdict.FAIL, "no " * 50, *(line("x" * 600, at=number) for number in range(30)))
    cases = (
        case if number < wrong else replace(case, verdict=Verdict.PASS, reason="")
        for number, case in enumerate(whole.cases)
    )
    text = html.render(replace(whole, cases=tuple(cases)))
    page = Page(text)
    assert 200_000 < len(text.encode()) < 400_000
    assert len(page.texts("ol", "wire")) == len(page.texts("mark")) == wrong


def test_a_short_conversation_is_whole_beside_long_ones() -> None:
    flood = [line("x" * 4000) for _ in range(1000)]
    long = [result(f"a/long-{number}", Verdict.FAIL, transcript=flood, guilty=0) for number in range(60)]
    short = result("a/short", Verdict.FAIL, transcript=[line("y" * 800), line("z" * 800)], stderr="w" * 2000)
    page = Page(html.render(run(*long, short)))
    assert page.texts("code")[-2:] == ["y" * 800, "z" * 800]
    assert page.texts("pre")[-1] == "w" * 2000
    assert len(page.texts("mark")) == 60


def test_every_filter_is_in_the_style_sheet() -> None:
    page = Page(html.render(every_verdict()))
    (style,) = page.texts("style")
    filters = [id for id in page.attributes("id") if id.startswith("only-")]
    assert len(filters) == 2 + len(Verdict)
    assert set(page.attributes("for")) == set(filters)
    for name in filters:
        assert f"#{name}:checked ~ nav [for=" in style
        assert f"#{name}:focus-visible ~ nav [for=" in style
    for verdict in {name.removeprefix("only-") for name in filters} - {"all", "problems"}:
        assert f"#only-{verdict}:checked ~ main :is(.case, .cell):not(.{verdict})" in style
        assert f"#only-{verdict}:checked ~ main :is(section, tr):not(.has-{verdict})" in style
    assert "#only-problems:checked ~ main :is(.case, .cell):not(.suite-error, .error, .fail" in style


def test_it_is_made_for_phones_and_for_the_dark() -> None:
    text = html.render(every_verdict())
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "@media (prefers-color-scheme: dark)" in text
    assert re.search(r"@media \(max-width: \d+rem\)", text)
