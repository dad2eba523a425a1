"""A profile by watching: what is seen of a turn tells what its prompt is for, and the file can be read again."""

import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.agent import profile
from conformance.agent.watch import Turn, Watched, as_toml, situations
from conformance.cli import main

AGENT = [sys.executable, "-S", "-E", str(Path(__file__).parents[1] / "faulty" / "agents")]


def turn(prompt: str = "go", ended: str = "end_turn", updates: str = "", requests: str = "") -> Turn:
    return Turn(prompt, updates.split(), "", requests.split(), ended)


@pytest.mark.parametrize(
    ("seen", "names"),
    [
        (turn(), {"quick"}),
        (turn(updates="agent_message_chunk agent_message_chunk"), {"quick", "stream"}),
        (turn(updates="plan tool_call"), {"quick", "plan", "tool"}),
        (turn(ended="error"), {"fails"}),
        (turn(ended="", updates="agent_message_chunk"), {"hang"}),
        (turn(ended=""), set[str]()),
        (turn(requests="fs/read_text_file"), {"read", "nested"}),
        (
            turn(updates="tool_call", requests="session/request_permission fs/write_text_file"),
            {"permission", "write", "tool", "nested", "hang"},
        ),
        (turn(requests="terminal/create terminal/wait_for_exit"), {"terminal", "nested"}),
    ],
)
def test_what_a_turn_does_tells_what_its_prompt_is_for(seen: Turn, names: set[str]) -> None:
    assert situations([seen]).keys() == names


def test_the_first_prompt_that_fits_is_taken() -> None:
    assert situations([turn("one"), turn("two", updates="plan")]) == {
        "quick": {"prompt": "one"},
        "plan": {"prompt": "two"},
    }


def test_whatever_was_prompted_the_file_can_be_read() -> None:
    prompt = 'a "quoted" \\ line\nand \x7f\x00 \ud800 ä'
    text = as_toml(Watched('na"me', [turn(prompt, updates="\n plan")]), {"authenticate": "key"})
    read = profile.parse(tomllib.loads(text))
    assert (read.name, read.authenticate) == ('na"me', "key")
    assert read.situations["plan"].prompt == prompt.replace("\ud800", "\ufffd")


def test_a_conversation_with_an_agent_makes_a_profile(tmp_path: Path) -> None:
    prompts = [word for name in ("stream", "permission", "read", "hang", "fails") for word in ("--prompt", name)]
    options = ["--output", str(tmp_path / "made.toml"), "--timeout", "2", "--authenticate", "key", *prompts]
    done = CliRunner().invoke(main, ["init", *options, "--", *AGENT])
    assert done.exit_code == 0, done.output
    made = profile.load(str(tmp_path / "made.toml"))
    assert {name: each.prompt for name, each in made.situations.items()} == {
        "quick": "Say OK.",
        "stream": "stream",
        "permission": "permission",
        "tool": "permission",
        "nested": "permission",
        "hang": "permission",
        "read": "read",
        "fails": "fails",
    }
    assert "plan: reports a plan" in done.stderr


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ([], "which agent?"),
        (["no-such-program"], "cannot be started"),
        ([sys.executable, "-c", ""], "there is no session to prompt in"),
    ],
)
def test_an_agent_that_cannot_be_watched_is_told(command: list[str], complaint: str) -> None:
    done = CliRunner().invoke(main, ["init", "--timeout", "2", "--", *command])
    assert done.exit_code == 2
    assert complaint in done.output
