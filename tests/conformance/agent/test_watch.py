"""A profile by watching: what is seen of a turn tells what its prompt is for, and the file can be read again."""

import re
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from click.testing import CliRunner

from acp_conformance.agent import profile
from acp_conformance.agent.cases import load
from acp_conformance.agent.launch import open_agent
from acp_conformance.agent.profile import Situation
from acp_conformance.agent.run import AgentRun
from acp_conformance.agent.watch import GREETING, UNKNOWN, Turn, Watched, as_toml, watch
from acp_conformance.cli import main
from acp_conformance.core.process import Process
from acp_conformance.core.result import Verdict
from tests.conformance.fuzz.agent import SmallAgent, update
from tests.conformance.fuzz.agents import InMemory

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
    assert Watched(turns=[seen]).situations.keys() == names


def test_what_a_turn_reports_of_its_session_is_a_situation() -> None:
    watched = Watched(turns=[Turn("p", ended="end_turn", reported=["usage_update"])])
    assert watched.situations.keys() == {"quick", "reports"}


def test_the_first_prompt_that_fits_is_taken() -> None:
    watched = Watched(turns=[turn("one"), turn("two", updates="plan")])
    assert watched.situations == {"quick": Situation("one"), "plan": Situation("two")}


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
    assert re.search(r"^  plan +a turn that reports a plan$", done.stderr, re.MULTILINE)


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


class ReadsWhenAsked(SmallAgent):
    """It takes the requests for tools for what they are."""

    def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
        text = params["prompt"][0]["text"]
        reads = text.startswith("Read the file /")
        return super()._prompt(id, session, "'situation-read'" if reads else "'situation-quick'")


@asynccontextmanager
async def started(make: Callable[[], SmallAgent], *_: Any, **__: Any) -> AsyncIterator[Process]:
    yield cast("Process", InMemory(make()))


def judged(make: Callable[[], SmallAgent], *cases: str, watching: bool = True) -> Mapping[str, tuple[Verdict, str]]:
    run = AgentRun(["small"], UNKNOWN, timeout=0.4, watching=watching, start=partial(started, make))
    found = anyio.run(run.run, load().matching(cases))
    return {case.id: (case.verdict, case.reason) for case in found.cases}


def test_a_run_without_a_profile_finds_the_prompts_by_itself() -> None:
    found = judged(ReadsWhenAsked, "turns/stop-reason", "nested/answer-arrives", "permission/asks-first")
    assert found == {
        "turns/stop-reason": (Verdict.PASS, ""),
        "nested/answer-arrives": (Verdict.PASS, ""),
        "permission/asks-first": (Verdict.SKIP, "nothing that was tried leads to the situation 'permission'"),
    }


def test_an_agent_that_was_seen_to_ask_for_nothing_is_not_judged_by_how_it_asks() -> None:
    found = judged(SmallAgent, "permission/asks-first", "nested/withdrawn", "session-cancel/twice")
    nothing = (Verdict.NOT_APPLICABLE, "it sent no request to its client, whatever was tried")
    assert found["permission/asks-first"] == found["nested/withdrawn"] == nothing
    assert found["session-cancel/twice"] == (
        Verdict.SKIP,
        "nothing that was tried leads to the situation 'hang'",
    )


def test_without_prompts_what_needs_one_is_skipped() -> None:
    found = judged(SmallAgent, "turns/stop-reason", watching=False)
    assert found["turns/stop-reason"] == (Verdict.SKIP, "the profile has no situation 'quick'")


@pytest.mark.parametrize("name", ["login", "logout", "quit"])
def test_a_command_that_changes_more_than_its_session_is_not_tried(name: str) -> None:
    class Offers(SmallAgent):
        def _answer(self, id: Any, method: Any, params: Any) -> Iterator[Any]:
            yield from super()._answer(id, method, params)
            if method == "session/new":
                commands = [{"name": each, "description": "It does."} for each in (name, "review")]
                offered = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
                yield update(f"session-{self._sessions}", offered)

    async def tried() -> list[str]:
        async with open_agent([], UNKNOWN, patience=1, start_patience=1, start=partial(started, Offers)) as agent:
            return [turn.prompt for turn in (await watch(agent)).turns]

    prompts = anyio.run(tried)
    assert "/review" in prompts
    assert f"/{name}" not in prompts


def test_a_conversation_that_takes_too_long_counts_as_far_as_it_came() -> None:
    class Slow(SmallAgent):
        def _prompt(self, id: Any, session: str, params: Any) -> Iterator[Any]:
            words = params["prompt"][0]["text"]
            yield from super()._prompt(id, session, f"'situation-{'quick' if words == GREETING else 'hang'}'")

        def _cancel(self, params: Any) -> Iterator[Any]:
            yield from ()

    async def watched() -> Watched:
        async with open_agent([], UNKNOWN, patience=9, start_patience=9, start=partial(started, Slow)) as agent:
            return await watch(agent, limit=2)

    assert [turn.prompt for turn in anyio.run(watched).turns] == [GREETING]
