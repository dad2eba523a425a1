"""Lines that match: as in grep, in bounded time, and without a difference between one line and many at once."""

import random
import re
import threading
import time

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server.apps.coder import search as module
from acp_server.apps.coder.read import Block
from acp_server.apps.coder.roots import Refusal
from acp_server.apps.coder.search import Match, Matcher, Sight, SlowLine, sight

# No way to match this line is found quickly: each comma doubles the work.
CATASTROPHE = r"(?:.*?,){20}P"
DREADFUL_LINE = "1," * 40


def lines_found(source: str, text: str) -> list[tuple[int, int]]:
    found = list(Matcher(source).find(Block(text)))
    return [(match.line, match.column) for match in found if isinstance(match, Match)]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("b", "abc\nxyz\nbb", [(0, 1), (2, 0)]),
        ("^b", "ab\nba", [(1, 0)]),
        ("b$", "ab\nba", [(0, 1)]),
        ("^$", "a\n\nb\n", [(1, 0), (3, 0)]),
        ("x*", "a\nx\n", [(0, 0), (1, 0), (2, 0)]),
        (r"a\s*b", "a\nb\na b", [(2, 0)]),
        (r"\s", "a\nb\n c", [(2, 0)]),
        ("[^a]+", "a\na\nab", [(2, 1)]),
        ("'[^']*'", "don't\ncan't\n'yes'", [(2, 0)]),
        (r"a(?!\s)", "a\nb a b", [(0, 0)]),
        (r"\Aa", "a\na", [(0, 0), (1, 0)]),
        (r"a\Z", "a\na", [(0, 0), (1, 0)]),
        ("(?s)a.*b", "a\nb\na-b", [(2, 0)]),
        ("(?i)ÄB", "äb", [(0, 0)]),
        (r"\bfoo\b", "foo\nfoobar\nx foo", [(0, 0), (2, 2)]),
        ("nothing", "a\nb", []),
    ],
)
def test_the_expression_sees_one_line_at_a_time(source: str, text: str, expected: list[tuple[int, int]]) -> None:
    assert lines_found(source, text) == expected


ATOMS = [
    *["a", "b", " ", ".", "[ab]", "[^a]", "^", "$", "\n", "\t", "(?i)", "(?s)", "(?-m)", "(*PRUNE)", "(?:a){e<=1}"],
    *[r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", r"[^\n]", r"\b", r"\B", r"\n", r"\t", r"[\t-b]", "[[:space:]]", r"\A"],
    *[r"\Z", r"\x0a", r"\p{Z}", r"\X", r"\R", r"\K", r"\m", r"\M", r"\1", r"\G", "\\\n", r"[\b-b]", r"[\1-b]"],
    "(?(1)a|b)",
]
GROUPS = ["(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?|", "(?P<n>", "(?<m>", "(?i:", "(?s:"]
REPEATS = ["", "", "", "", "*", "+", "?", "*?", "+?", "*+", "++", "?+", "{2}", "{1,2}", "{,2}"]


def expression(dice: random.Random, depth: int = 0) -> str:
    parts: list[str] = []
    for _ in range(dice.randint(1, 4)):
        if depth < 2 and dice.random() < 0.3:
            other = "|" + expression(dice, depth + 1) if dice.random() < 0.5 else ""
            parts.append(dice.choice(GROUPS) + expression(dice, depth + 1) + other + ")")
        else:
            parts.append(dice.choice(ATOMS))
        parts.append(dice.choice(REPEATS))
    return "".join(parts)


def test_many_lines_at_once_find_what_each_line_finds_by_itself() -> None:
    tried = dict.fromkeys(Sight, 0)
    for seed in range(3000):
        dice = random.Random(seed)
        source = expression(dice)
        if sight(source) is Sight.UNKNOWN:
            continue
        try:
            matcher = Matcher(source)
        except Refusal:
            continue
        tried[sight(source)] += 1
        compiled = regex.compile(source, cache_pattern=False)
        for _ in range(5):
            lines = ["".join(dice.choices("aab bc\t 1", k=dice.randint(0, 5))) for _ in range(dice.randint(1, 5))]
            expected = [(n, m.start()) for n, line in enumerate(lines) if (m := compiled.search(line, timeout=5))]
            found = [(m.line, m.column) for m in matcher.find(Block("\n".join(lines))) if isinstance(m, Match)]
            assert found == expected, (source, lines)
    assert tried[Sight.SAME] > 100
    assert tried[Sight.FARTHER] > 100


# Bounds


@pytest.mark.parametrize("sight_is", [Sight.SAME, Sight.UNKNOWN])
def test_a_line_that_takes_too_long_is_left_out_and_the_others_are_not(sight_is: Sight) -> None:
    source = CATASTROPHE + ("" if sight_is is Sight.SAME else r"|\A\A")
    assert sight(source) is sight_is
    text = "\n".join(["a", "1," * 20 + "P", DREADFUL_LINE, "1," * 20 + "P", "b"])
    found = [item for item in Matcher(source).find(Block(text)) if item is not None]
    kinds = [(type(item), item.line) for item in found if sight_is is Sight.SAME or item.line == 2]
    assert (SlowLine, 2) in kinds
    if sight_is is Sight.SAME:
        assert kinds == [(Match, 1), (SlowLine, 2), (Match, 3)]


def test_a_slow_expression_is_soon_tried_on_single_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIME_LIMIT", 0.02)
    matcher = Matcher(CATASTROPHE)
    for _ in range(3):
        list(matcher.find(Block(DREADFUL_LINE)))
    begun = time.thread_time()
    assert list(matcher.find(Block(f"{DREADFUL_LINE}\n{DREADFUL_LINE}"))) == [SlowLine(0), SlowLine(1)]
    assert time.thread_time() - begun < 0.055, "each line once, and no block"


def test_other_threads_run_while_a_line_takes_long() -> None:
    counted, done = 0, threading.Event()

    def search() -> None:
        list(Matcher(CATASTROPHE).find(Block(DREADFUL_LINE)))
        done.set()

    thread = threading.Thread(target=search)
    begun = time.thread_time()
    thread.start()
    while not done.is_set():
        counted += 1
    thread.join()
    # It searches for 0.2 s, in a block and then by itself, and this thread runs meanwhile.
    assert time.thread_time() - begun > 0.02
    assert counted > 1_000


def test_a_search_that_finds_nothing_lets_its_caller_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_PULSES", 0.0)
    assert list(Matcher(r"\Anothing").find(Block("a\nb\nc"))) == [None, None, None]


# Over-long lines


def pieces(line: str, *cuts: int) -> list[Block]:
    edges = [0, *cuts, len(line)]
    last = len(edges) - 2
    return [Block(line[edges[n] : edges[n + 1]], n > 0, n < last) for n in range(last + 1)]


def found_in(matcher: Matcher, line: str, *cuts: int) -> list[int]:
    found = [item for block in pieces(line, *cuts) for item in matcher.find(block)]
    for item in found:
        assert isinstance(item, Match)
        assert item.line == 0
        assert line.startswith(item.text[item.start :][:3], item.column)
    return [item.column for item in found if isinstance(item, Match)]


@pytest.mark.parametrize(
    ("source", "column"),
    [
        ("needle", 9_998),
        ("^hay", 0),
        ("ne+dle hay", 9_998),
        (r"\bneedle\b", 9_998),
        ("end$", 19_999),
        ("^needle", None),
        ("needle$", None),
        ("^ ", None),
        ("e$", None),
        (r"needle\b(?!x)", 9_998),
    ],
)
def test_a_match_across_the_cut_of_an_over_long_line_is_found_and_the_cut_is_no_edge(
    source: str, column: int | None
) -> None:
    line = "hay " * 2499 + "- needle " + "hay " * 2498 + "  end"
    expected = regex.search(source, line)
    assert (expected and expected.start()) == column
    for cut in [*range(9_996, 10_010), 5, 19_000, len(line) - 2]:
        assert found_in(Matcher(source), line, cut) == ([expected.start()] if expected else []), cut


@given(st.text("ab \n", min_size=1, max_size=40).map(lambda text: text.replace("\n", "b")), st.data())
@settings(max_examples=200)
def test_an_over_long_line_matches_where_it_would_in_one_piece(line: str, data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(["ab", "a+b", r"\ba", r"b\b", "^a", "a$", "^ab?a", "b a", "aa|b$", "[^a]b"]))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(line) - 1)), max_size=3)))
    cuts = [cut for cut in cuts if cut < len(line)]
    expected = re.search(source, line)
    assert found_in(Matcher(source), line, *cuts) == ([expected.start()] if expected else [])


def test_each_over_long_line_is_judged_anew() -> None:
    matcher = Matcher("x|^b")
    assert found_in(matcher, "a" * 10 + "x", 5) == [10]
    assert found_in(matcher, "b" + "a" * 10, 5) == [0]
    assert found_in(matcher, "a" * 10, 5) == []


def test_an_over_long_line_on_which_the_expression_is_slow_is_left_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIME_LIMIT", 0.02)
    matcher = Matcher(CATASTROPHE)
    found = [item for block in pieces(DREADFUL_LINE * 3, 80, 160) for item in matcher.find(block)]
    assert found == [SlowLine(0)]
