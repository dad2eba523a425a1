"""Ignore files that are made to take for ever: the walk can be stopped at any time, and comes to an end."""

import time
from collections.abc import Generator
from pathlib import Path

import pytest

from acp_server.apps.coder import ignore
from acp_server.apps.coder.ignore import IgnoreRules, Steps, TooManySteps, finished
from acp_server.apps.coder.read import Skipped
from acp_server.apps.coder.walk import walk

from .talk import talking
from .trees import paths, plant

LARGEST = 256 * 1024
NAME = "a" * 240

HOSTILE = {
    "wildcards": "*a*a*N",
    "one wildcard": "*b",
    "a wildcard before a long text": f"*{'a' * 200}N",
    "a wildcard before any letters": f"*{'?' * 120}N",
    "more wildcards than a rule may have": f"{'*a' * 400}N",
    "classes": f"*{'[ab]' * 100}N",
    "directories": f"{'**/' * 40}a*a*N",
    "directories and wildcards": "**/a*a/**/*a*N",
    "all below": "**/a*a*a/**",
    "escapes": "\\a" * 400,
    "spaces": f"{' ' * 1000}x",
    "plain names": "plain",
    "nothing but a wildcard": "*",
    "kept": "!*a*a*N",
}
"""A line of each kind, with which the largest ignore file is filled."""


def filled(line: str) -> str:
    """The largest ignore file, all of one kind of line."""
    return "\n".join(f"{line}{n}" for n in range(LARGEST // (len(line) + 7)))


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_largest_ignore_file_of_hostile_rules_holds_up_neither_a_cancel_nor_the_walk(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A tenth, for the sake of who waits for this test.
    monkeypatch.setattr(ignore, "_STEPS", 500_000_000)
    plant(tmp_path, {".git/HEAD": "", ".gitignore": filled(HOSTILE[kind])})
    plant(tmp_path, dict.fromkeys([f"{'d' * 250}/{NAME}{n}" for n in range(10)], ""))
    begun = last = time.thread_time()
    longest = 0.0
    found: list[str | Skipped | None] = []
    for item in walk(str(tmp_path)):
        found.append(item)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    # Much more than it takes, and much less than it took: minutes.
    assert longest < 0.2
    assert last - begun < 20
    assert kind in ("one wildcard", "nothing but a wildcard") or len(paths(tmp_path, found)) == 11


def piled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with an honest and a costly ignore file, in a world with few steps."""
    monkeypatch.setattr(ignore, "_STEPS", 3_000_000)
    monkeypatch.setattr(ignore, "_STEPS_EACH", 10_000)
    monkeypatch.setattr(ignore, "_STEPS_LENT", 100_000)
    costly = "\n".join(["# all of them cost", "", *["*a*a*N"] * 30])
    plant(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\n", "d/.gitignore": costly})
    return plant(tmp_path, dict.fromkeys([f"d/{NAME}{n:03}{end}" for n in range(99) for end in ("", ".log")], "x\n"))


def test_the_costly_ignore_file_is_left_out_and_named_once_and_the_honest_one_still_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = list(walk(str(piled(tmp_path, monkeypatch))))
    assert [item for item in items if isinstance(item, Skipped)] == [
        Skipped(
            str(tmp_path / "d" / ".gitignore"), "Its 30 rules take too long, so none of them counts", None, rules=30
        )
    ]
    assert paths(tmp_path, items) == [".gitignore", "d/.gitignore", *[f"d/{NAME}{n:03}" for n in range(99)]]


def test_an_ignore_file_that_takes_too_long_to_read_is_left_out_with_its_number_of_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignore, "_STEPS", 100_000)
    plant(tmp_path, {".gitignore": "# no rule\n\n" + "*a*\n" * 300, "b/.gitignore": "c\n", "a": "", "b/c": ""})
    items = list(walk(str(tmp_path)))
    assert paths(tmp_path, items) == [".gitignore", "a", "b/.gitignore"]
    (skipped,) = [item for item in items if isinstance(item, Skipped)]
    assert (skipped.path, skipped.rules) == (str(tmp_path / ".gitignore"), 300)


@pytest.mark.anyio
async def test_a_search_and_a_scan_tell_of_an_ignore_file_that_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piled(tmp_path, monkeypatch)
    told = "`d/.gitignore`: Its 30 rules take too long, so none of them counts."
    async with talking() as talk:
        session = await talk.open(str(tmp_path))
        assert (await talk.tell(session, "/search nothing")).text == f"0 hits in 101 files.\n{told}\n"
        assert (await talk.tell(session, "/scan")).text.endswith(f"\n{told}\n")


def pulses(generator: Generator[None, None, object]) -> int:
    return sum(1 for _ in generator)


def test_there_is_a_chance_to_stop_between_any_million_steps_of_one_verdict() -> None:
    steps = Steps()
    rules = IgnoreRules()
    finished(rules.read([f"*a*a*N{n}" for n in range(2000)], steps))
    before = rules.taken
    seen = pulses(rules.judge(NAME, NAME, False, steps))
    assert seen >= (rules.taken - before) // 2_000_000 > 2


def test_there_is_a_chance_to_stop_while_an_ignore_file_is_read() -> None:
    assert pulses(IgnoreRules().read(["name"] * 37_000, Steps())) > 5
    assert pulses(IgnoreRules().read(["*name*"] * 1000, Steps())) > 10


def test_the_steps_of_a_walk_are_bounded_and_grow_with_what_is_judged() -> None:
    steps = Steps()
    with pytest.raises(TooManySteps):
        steps.take(6_000_000_000)
    steps.take(5_000_000_000)
    with pytest.raises(TooManySteps):
        steps.take(1)
    steps.more()
    steps.take(50_000)
