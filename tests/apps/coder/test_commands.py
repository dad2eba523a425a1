"""What a line that a user typed means."""

import contextlib
import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from acp_server.apps.coder.commands import (
    COMMANDS,
    Command,
    HelpCommand,
    ReadCommand,
    ScanCommand,
    SearchCommand,
    help_text,
    parse_command,
)
from acp_server.apps.coder.roots import Refusal


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/search foo", SearchCommand("foo")),
        ("/search foo src", SearchCommand("foo", ("src",))),
        ("  /SEARCH \t foo \n src  ", SearchCommand("foo", ("src",))),
        (r"/search \bfoo\b", SearchCommand(r"\bfoo\b")),
        (r"/search \\server\d+ C:\src", SearchCommand(r"\\server\d+", (r"C:\src",))),
        ('/search "def main" src', SearchCommand("def main", ("src",))),
        ("/search 'def main'", SearchCommand("def main")),
        (r'/search "\bdef\s+x"', SearchCommand(r"\bdef\s+x")),
        (r'/search "say \"hi\""', SearchCommand('say "hi"')),
        (r"""/search 'don\'t "do"' a""", SearchCommand("""don't "do\"""", ("a",))),
        (r'/search "ends\\" a', SearchCommand(r"ends\\", ("a",))),
        ('/search "[^"]*"', SearchCommand('"[^"]*"')),
        ('/search "[^"]*" src', SearchCommand('"[^"]*"', ("src",))),
        ('/search "foo', SearchCommand('"foo')),
        (r"/search \"foo src", SearchCommand(r"\"foo", ("src",))),
        ("/search it's src", SearchCommand("it's", ("src",))),
        ("/search (?i)x|y", SearchCommand("(?i)x|y")),
        ('/search x "my dir"', SearchCommand("x", ("my dir",))),
        ('/search "a b" "my \\"dir\\""', SearchCommand("a b", ('my "dir"',))),
        ("/read a.py", ReadCommand("a.py")),
        ("/read a.py:10-20", ReadCommand("a.py:10-20")),
        ("/read my file.txt:10", ReadCommand("my file.txt:10")),
        ('/read "my file.txt"', ReadCommand("my file.txt")),
        ('/read "my file.txt":10-', ReadCommand("my file.txt:10-")),
        ('/read "a" and "b"', ReadCommand('"a" and "b"')),
        (r"/read C:\dir\file.py:3", ReadCommand(r"C:\dir\file.py:3")),
        ("/scan", ScanCommand(None)),
        ("/scan src", ScanCommand("src")),
        ("/scan my dir", ScanCommand("my dir")),
        ("/scan 'my dir'", ScanCommand("my dir")),
        ("/help", HelpCommand()),
        ("/help search", HelpCommand()),
    ],
)
def test_a_command_means_what_people_expect(text: str, command: Command) -> None:
    assert parse_command(text) == command


@pytest.mark.parametrize("text", ["", "hello", "search foo", "what does /search do?", "./search", "\\search"])
def test_what_does_not_begin_with_a_slash_is_no_command(text: str) -> None:
    assert parse_command(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/search", "A pattern is missing"),
        ("/search  ", "A pattern is missing"),
        ('/search ""', "The pattern is empty"),
        ('/search "def main', "quotation mark is not closed"),
        ("/search 'def main src", "quotation mark is not closed"),
        ("/read", "A path is missing"),
        ("/find x", "No such command: `/find`. There is /search, /read, /scan, /edit, /write, /run, /help"),
        ("/", "No such command: `/`."),
        ("/etc/passwd", "No such command: `/etc/passwd`"),
        ("/searching x", "No such command"),
    ],
)
def test_a_command_that_is_not_understood_is_refused_with_how_to_type_it(text: str, message: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_command(text)
    assert message in str(caught.value)
    if "No such" not in message:
        assert "`/" in str(caught.value)


@given(st.text(alphabet=st.sampled_from("/search \"'\\ab\n\t"), max_size=30))
def test_whatever_is_typed_is_a_command_or_none_or_refused(text: str) -> None:
    for line in (text, f"/search {text}", f"/read {text}", f"/scan {text}"):
        with contextlib.suppress(Refusal):
            assert parse_command(line) is None or line.strip().startswith("/")


@given(st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1))
def test_any_pattern_can_be_typed_between_quotation_marks(pattern: str) -> None:
    escaped = regex.escape(pattern).replace('"', '\\"')
    command = parse_command(f'/search "{escaped}"')
    assert isinstance(command, SearchCommand)
    assert regex.fullmatch(command.pattern, pattern)


def test_every_example_in_the_help_is_a_command() -> None:
    examples = [example for command in COMMANDS for example in command.examples]
    assert len(examples) >= 6
    for example in examples:
        assert parse_command(example) is not None
        assert example in help_text()
    assert all(command.usage in help_text() for command in COMMANDS)


@pytest.mark.parametrize(
    "text",
    [
        '/edit a "' + "x" * 1_000_000,
        '/edit a "' + '\\"' * 500_000,
        "/edit a b" + ' => "' * 100_000,
        "/edit a " + "`" * 1_000_000,
        "/write a ```\n" + "``` x\n" * 150_000,
        "/search x " + '"a" ' * 250_000,
        "/edit a b" + " " * 1_000_000 + "=> c",
    ],
    ids=range(7),
)
def test_a_long_message_is_read_in_time_that_grows_with_its_length(text: str) -> None:
    begun = time.thread_time()
    try:
        parse_command(text)
    except Refusal:
        pass
    # Up to 50 ms, where some took minutes.
    assert time.thread_time() - begun < 1


def test_of_many_paths_and_arrows_none_is_tried() -> None:
    assert parse_command("/search x " + "a " * 100) is not None
    with pytest.raises(Refusal, match="more than 100 paths"):
        parse_command("/search x " + "a " * 101)
    assert parse_command("/edit a b" + " => c" * 98 + ' => "d => e"') is not None
    with pytest.raises(Refusal, match="more than one `=>`"):
        parse_command("/edit a b" + " => c" * 101)
