"""Regular expressions: compiled or refused, and what they can see beyond a line."""

import time

import pytest

from acp_server.apps.coder.roots import Refusal
from acp_server.apps.coder.search import Sight, compile_pattern, sight


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("(open", r"missing \) at position 5 in `\(open`"),
        ("*", "nothing to repeat"),
        ("[z-a]", "bad character range"),
        ("[open", "unterminated"),
        ("ends\\", "bad escape"),
        (r"\p{nonsense}", "unknown property"),
        ("(?P<1>x)", "bad character in group name"),
        ("(" * 5000, "nested too deeply"),
        ("x" * 10_001, "longer than 10,000"),
        ("a{1000000000}", "has too many repetitions"),
        ("a{99999999999999999999,}", "has too many repetitions"),
        ("((a{100}){100}){100}", "has too many repetitions"),
        ("(?:(?:[a-z]{1000}){1000}|b){10}", "has too many repetitions"),
        ("(?R)?", "Recursive patterns are not supported"),
        ("(?iLu)a", "mutually incompatible"),
        ("(?P<x>a(?&x)?)", "Recursive patterns are not supported"),
        ("(a(?1)?)", "Recursive patterns are not supported"),
    ],
)
def test_a_pattern_that_is_not_valid_or_too_large_is_refused_and_the_message_says_why(source: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as caught:
        compile_pattern(source)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "source",
    [
        r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12} [0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
        r"a{0,1000000}",
        r"x{,3}y{z}",
        r"[[]{3}[]a]{2}[^]]{2}",
        r"\{100000000\}",
        r"(?i)straße",
        "x" * 10_000,
    ],
)
def test_what_people_search_for_is_not_too_large(source: str) -> None:
    compile_pattern(source)


@pytest.mark.parametrize(
    "source", [r"\bfoo\(", r"def \w+", "a.*b", "(?!x)y", "(?>a+)b", "^#", "x$", "[a-z]", r"\\s", "(?i)X"]
)
def test_a_pattern_that_cannot_match_a_newline_sees_the_same_in_many_lines(source: str) -> None:
    assert sight(source) is Sight.SAME


@pytest.mark.parametrize(
    "source", [r"def\s+\w+", '"[^"]*"', r"\W+x", "[[:space:]]", r"[\t-z]", r"[\b-z]", r"\x0a?a", "a\\\n?"]
)
def test_a_pattern_that_can_match_a_newline_sees_farther(source: str) -> None:
    assert sight(source) is Sight.FARTHER


@pytest.mark.parametrize(
    "source",
    [
        r"\Afoo",
        r"foo\Z",
        "(?s)a.b",
        r"a(?!\s)",
        r"(?<=\s)a",
        r"\s*+a",
        r"(?>\s*)a",
        "(?:x){e<=1}",
        "(?-m:^a)",
        "a(*SKIP)b",
    ],
)
def test_a_pattern_that_may_not_work_on_many_lines_is_recognised(source: str) -> None:
    assert sight(source) is Sight.UNKNOWN


@pytest.mark.parametrize(
    "pattern",
    [
        f"(?#{'[' * 9900})",
        "[" * 9900,
        "[\\b" * 3000,
        "{" * 9900,
        "(?" * 4900,
        "[[" * 4900,
        "\\" * 9999,
        "(?#" * 3300,
        "|".join(f"word{n}" for n in range(1100)),
    ],
    ids=range(9),
)
def test_to_judge_a_pattern_takes_no_longer_than_its_length_allows(pattern: str) -> None:
    begun = time.thread_time()
    try:
        compile_pattern(pattern)
        sight(pattern)
    except Refusal:
        pass
    # Up to 40 ms, where trying each bracket to the end took a second.
    assert time.thread_time() - begun < 0.5


@pytest.mark.parametrize(
    "pattern",
    [
        "(x{1000}[[:alpha:](]){1000}",
        "((x{1000}[[:alpha:](]){1000}[[:alpha:])])",
        "(?V1)(x{1000}[[a](]){1000}",
        "(?x)#[\n((x{1000}){1000}){1000}#]",
        "(?xi:x{1000}){1000}",
        "(x{1000})(?#why){1000}",
        "(?#[)((x{1000}){1000}){1000}(?#])",
    ],
)
def test_repeats_that_are_hidden_behind_brackets_and_comments_are_counted(pattern: str) -> None:
    with pytest.raises(Refusal, match="has too many repetitions"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[[:alpha:]]{3}-[[:digit:]]{4}", "(?x) a{3} # c", "[[]{9}"],
)
def test_honest_repeats_are_compiled(pattern: str) -> None:
    compile_pattern(pattern)
