"""How what a user typed is taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.apps.coder.commands import (
    Command,
    EditCommand,
    Mistyped,
    RunCommand,
    SearchCommand,
    WriteCommand,
    exactly,
    parse_command,
    replacement,
)
from acp_server.apps.coder.roots import Refusal


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/search foo src tests", SearchCommand("foo", ("src", "tests"))),
        ('/search foo "my dir" src', SearchCommand("foo", ("my dir", "src"))),
        ("/edit a.txt old => new", EditCommand("a.txt", "old", "new")),
        ("/edit a.txt  two words  =>  three more words ", EditCommand("a.txt", "two words", "three more words")),
        ('/edit "my file.txt" old => new', EditCommand("my file.txt", "old", "new")),
        ("/edit a.txt gone =>", EditCommand("a.txt", "gone", "")),
        ('/edit a.txt " old " => " new "', EditCommand("a.txt", " old ", " new ")),
        ('/edit a.txt "a\nb" => "c\nd"', EditCommand("a.txt", "a\nb", "c\nd")),
        (r'/edit a.txt "say \"hi\"" => \n', EditCommand("a.txt", 'say "hi"', r"\n")),
        ('/edit a.js "x => y" => y => x', EditCommand("a.js", "x => y", "y => x")),
        ('/edit a.js x => "y => x"', EditCommand("a.js", "x", "y => x")),
        ('/edit a.py "x" + 1 => "y" + 1', EditCommand("a.py", '"x" + 1', '"y" + 1')),
        ("/edit a.py a=>b => a=>c", EditCommand("a.py", "a=>b", "a=>c")),
        ("/edit a.py\n```\n  one\n  two\n```\n=>\n```\n  three\n```", EditCommand("a.py", "  one\n  two", "  three")),
        ("/edit a.py\n```python\none\n```\n=>\n~~~\n```\n~~~\n", EditCommand("a.py", "one", "```")),
        ("/edit a.py one =>\n```\n```", EditCommand("a.py", "one", "")),
        ("/write a.txt Buy milk.", WriteCommand("a.txt", "Buy milk.\n")),
        ("/write a.txt\n  indented\nand not\n\n", WriteCommand("a.txt", "  indented\nand not\n")),
        ("/write a.txt one\ntwo", WriteCommand("a.txt", "one\ntwo\n")),
        ('/write "my file.txt"  text', WriteCommand("my file.txt", "text\n")),
        ('/write a.txt ""', WriteCommand("a.txt", "")),
        ("/write a.txt 'no line break'", WriteCommand("a.txt", "no line break")),
        ("/write a.txt\n````md\n```\ncode\n```\n````", WriteCommand("a.txt", "```\ncode\n```\n")),
        ("/write a.txt\n```\n```", WriteCommand("a.txt", "")),
        ("/write a.txt", WriteCommand("a.txt", None)),
        ("/run git status | head", RunCommand("git status | head")),
        ("/run 'echo' \"$HOME\"", RunCommand("'echo' \"$HOME\"")),
        ("/run\n```sh\ncd src\nls\n```", RunCommand("cd src\nls")),
    ],
)
def test_a_command_with_several_arguments_means_what_people_expect(text: str, command: Command) -> None:
    assert parse_command(text) == command


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/edit", "A path is missing"),
        ("/edit a.txt", "There is no `=>`"),
        ("/edit a.txt old new", "There is no `=>`"),
        ("/edit a.txt old=>new", "There is no `=>`"),
        ("/edit a.txt => new", "What to replace is missing"),
        ('/edit a.txt "" => new', "What to replace is missing"),
        ("/edit a.js x => y => z", "more than one `=>`"),
        ('/edit "my file a => b', "quotation mark is not closed"),
        ("/write", "A path is missing"),
        ('/write "a b c', "quotation mark is not closed"),
        ("/run", "A command is missing"),
        ("/run\n```\n```", "A command is missing"),
    ],
)
def test_arguments_that_are_not_understood_are_refused_with_how_to_type_them(text: str, message: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_command(text)
    assert message in str(caught.value)
    assert "Usage: `/" in str(caught.value)


ANY = st.text(alphabet=st.characters(exclude_categories=["Cs"]))


@given(ANY, ANY)
def test_any_two_texts_can_be_typed_in_blocks(old: str, new: str) -> None:
    # A block is lines; what parts them is a line feed, and nothing else.
    fence = "`" * 40
    text = f"{fence}\n{old}\n{fence}\n=>\n{fence}\n{new}\n{fence}"
    assert replacement(text) == (old, new)


@given(ANY)
def test_any_text_without_backslashes_can_be_typed_between_quotation_marks(text: str) -> None:
    text = text.replace("\\", "")
    assert exactly('"' + text.replace('"', '\\"') + '"') == text


@given(st.text(alphabet=st.sampled_from("=> \"'\\`~a\n"), max_size=40))
def test_whatever_is_typed_is_two_texts_or_mistyped(text: str) -> None:
    try:
        old, new = replacement(text)
    except Mistyped:
        return
    assert isinstance(old, str)
    assert isinstance(new, str)
