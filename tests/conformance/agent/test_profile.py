"""Profiles: what they say, and what is said of those that are wrong."""

from pathlib import Path

import pytest

from acp_conformance.agent.profile import INCLUDED, Situation, load
from acp_conformance.core.tables import ProfileError, names

GOOD = """
name = "mine"
[setup]
cwd_files = {"a/b.txt" = "hello"}
env = {MODE = "test"}
mode = "code"
answers = {color = "red", count = 3}
[situations]
quick.prompt = "hi"
read = {prompt = "read {cwd}/a/b.txt", mode = "auto", says = "hello", hold = ["fs/read_text_file"]}
"""


def test_a_profile_says_how_to_bring_an_agent_into_situations(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    profile = load(str(path))
    assert profile.name == "mine"
    assert profile.situations["quick"] == Situation("hi")
    assert profile.situations["read"] == Situation("read {cwd}/a/b.txt", "auto", ("fs/read_text_file",), "hello")
    assert profile.answers == {"color": "red", "count": 3}
    assert (profile.cwd_files, profile.env, profile.mode) == ({"a/b.txt": "hello"}, {"MODE": "test"}, "code")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name = ", "mine.toml: Invalid value"),
        ("prompts = {}", "unknown key 'prompts'; known are name, setup, situations"),
        ("name = 1", "name must be a string"),
        ("setup = 1", "setup must be a table"),
        ("[setup]\nfiles = {}", r"\[setup\]: unknown key 'files'"),
        ("[setup.env]\nA = 1", r"\[setup\]: env: A must be a string"),
        ('[setup.cwd_files]\n"/etc/x" = ""', "is not below the working directory"),
        ('[setup.cwd_files]\n"../x" = ""', "is not below the working directory"),
        ('[situations.sing]\nprompt = "la"', r"\[situations.sing\]: no such situation; there are quick, stream"),
        ("[situations]\nquick = 'hi'", r"\[situations.quick\] must be a table"),
        ("[situations.quick]", r"\[situations.quick\]: no prompt"),
        ("[situations.quick]\nprompt = 5", "prompt must be a string"),
        ("[situations.quick]\nprompt = 'a'\nhold = 'fs'", "hold must be a list"),
        (
            "[situations.quick]\nprompt = 'a'\nhold = ['session/prompt']",
            "'session/prompt' is not a request to a client",
        ),
        ("[situations.quick]\nprompt = 'a'\nhold = [5]", r"hold\[0\] must be a string"),
        ("[situations.quick]\nprompt = 'a'\ntext = 'b'", "unknown key 'text'"),
    ],
)
def test_the_fault_of_a_profile_is_named_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ProfileError, match=why) as caught:
        load(str(path))
    assert str(path) in str(caught.value)


def test_bytes_that_are_no_text_are_a_fault_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match=r"mine\.toml"):
        load(str(path))


def test_a_profile_that_is_not_there_is_told_which_there_are() -> None:
    with pytest.raises(ProfileError, match=r"no profile 'nobody': not a file, and not one of .*workspace"):
        load("nobody")


@pytest.mark.parametrize("name", names(INCLUDED))
def test_the_included_profiles_can_be_read(name: str) -> None:
    assert load(name).situations
