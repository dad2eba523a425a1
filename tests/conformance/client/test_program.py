"""The command line of a client under test."""

import os
from pathlib import Path

import pytest

from acp_conformance.client.program import expand

AGENT = ["/usr/bin/python", "-I", "a judge.py"]


def test_the_agent_alone_becomes_its_words() -> None:
    assert expand(["client", "{agent}", "end"], AGENT, "/f") == ["client", *AGENT, "end"]


def test_the_agent_in_a_longer_word_is_quoted_for_a_shell() -> None:
    assert expand(["client", "--agent={agent}"], AGENT, "/f") == ["client", "--agent=/usr/bin/python -I 'a judge.py'"]


def test_the_folder_of_the_case_can_be_named() -> None:
    assert expand(["client", "--cwd={cwd}", "{cwd}", "{agent}"], ["a"], "/f") == ["client", "--cwd=/f", "/f", "a"]


def test_files_of_the_present_folder_are_named_by_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "client.py").touch()
    (tmp_path / "sub" / "tool").touch()
    (tmp_path / "word").touch()
    monkeypatch.chdir(tmp_path)
    here = os.getcwd()
    words = ["python", "client.py", "sub/tool", "word", "-m", "a.b", "not/there", "{agent}"]
    assert expand(words, ["a"], "/f") == [
        "python",
        f"{here}/client.py",
        f"{here}/sub/tool",
        "word",  # may be a word
        "-m",
        "a.b",
        "not/there",
        "a",
    ]
