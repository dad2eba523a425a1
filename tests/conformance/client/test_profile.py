"""Profiles of clients: what they say, and how mistakes in them are told."""

import signal
from pathlib import Path

import pytest

from acp_conformance.client import profile
from acp_conformance.core import tables
from acp_conformance.core.tables import ProfileError


def test_without_a_profile_a_client_prompts_by_itself_and_nothing_is_typed() -> None:
    empty = profile.Profile()
    assert set(empty.situations) == {"prompt"}
    assert not empty.types


def test_a_profile_says_what_the_user_does(tmp_path: Path) -> None:
    file = tmp_path / "client.toml"
    file.write_text("""
        name = "mine"
        arguments = ["--plain"]
        env = {A = "b"}
        stdin = ["/quiet"]

        [situations.prompt]
        automatic = true
        arguments = ["--say", "hello"]

        [situations.cancel]
        signal = "SIGINT"

        [situations.approve]
        stdin = ["{number}"]
        closes = true
    """)
    read = profile.load(str(file))
    assert (read.name, read.arguments, read.env, read.stdin) == ("mine", ("--plain",), {"A": "b"}, ("/quiet",))
    assert read.situations == {
        "prompt": profile.Action(arguments=("--say", "hello")),
        "cancel": profile.Action(signal=signal.SIGINT),
        "approve": profile.Action(stdin=("{number}",), closes=True),
    }
    assert read.types


@pytest.mark.parametrize("name", tables.names(profile.INCLUDED))
def test_included_profiles_can_be_read(name: str) -> None:
    assert profile.load(name).name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nam = 'x'", "unknown key 'nam'"),
        ("name = 3", "name must be a string"),
        ("arguments = 'x'", "arguments must be a list of strings"),
        ("stdin = [1]", "stdin[0] must be a string"),
        ("env = {A = 1}", "env: A must be a string"),
        ("situations = 3", "situations must be a table"),
        ("[situations.dance]\nautomatic = true", "no such situation; there are prompt, again, cancel"),
        ("[situations.cancel]", "nothing is done"),
        ("[situations.cancel]\nautomatic = 1", "automatic must be true or false"),
        ("[situations.cancel]\nautomatic = true\nstdin = ['x']", "neither typed nor signalled"),
        ("[situations.cancel]\nsignal = 'SIGNOT'", "no signal 'SIGNOT'"),
        ("situations.cancel = 1", "must be a table"),
        ("]", "Invalid"),
    ],
)
def test_a_mistake_in_a_profile_is_told_with_its_place(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "client.toml"
    file.write_text(text)
    with pytest.raises(ProfileError, match=r"client\.toml") as told:
        profile.load(str(file))
    assert complaint in str(told.value)


def test_a_profile_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ProfileError, match="acp-server-chat"):
        profile.load("nowhere")
