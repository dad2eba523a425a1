"""A turn with children is cut between any two steps of the scheduler: the child alone, its own child, or all of it."""

import itertools
from collections.abc import Callable

import pytest

from tests.cancel import stepper
from tests.cancel.conversation import END, FIRST, tell
from tests.cancel.delegation import CHILD, GRANDCHILD, Delegation

Way = Callable[[Delegation], None]

GAPS = (1, 2, 3, 5, 8, 13)
"""Steps between one cancel and the next."""


def cancel_the_child(story: Delegation) -> None:
    story.cancel_child(CHILD)


def cancel_the_grandchild(story: Delegation) -> None:
    story.cancel_child(GRANDCHILD)


def cancel(story: Delegation) -> None:
    story.stop("session/cancel")


def withdraw(story: Delegation) -> None:
    story.stop("$/cancel_request", requestId=FIRST)


def close(story: Delegation) -> None:
    story.stop("session/close", END)


def end_input(story: Delegation) -> None:
    story.said.append("end")
    story.send_eof()


def close_connection(story: Delegation) -> None:
    story.said.append("end")
    story.connection.close()


def cancel_scope(story: Delegation) -> None:
    story.said.append("end")
    story.around.cancel()


ONE = {cancel_the_child: CHILD, cancel_the_grandchild: GRANDCHILD}
WAYS: list[Way] = [
    *ONE,
    cancel,
    withdraw,
    close,
    end_input,
    close_connection,
    cancel_scope,
]
PAIRS: list[tuple[Way, Way]] = [
    (cancel_the_child, cancel),
    (cancel, cancel_the_child),
    (cancel_the_grandchild, cancel_the_child),
    (cancel_the_child, cancel_the_grandchild),
    (cancel_the_child, cancel_the_child),
    (cancel_the_child, close),
    (cancel_the_grandchild, end_input),
    (cancel_the_child, close_connection),
]
KINDS = [(1, True), (1, False), (2, True), (2, False)]
backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def lived(backend: str, kind: tuple[int, bool], cuts: dict[int, Way], seed: int = 0) -> tuple[Delegation, int]:
    """A turn that was lived through, and is as it must be; how many steps it took."""
    version, shows = kind
    story = Delegation(version=version, shows=shows)

    def before(step: int) -> None:
        if step in cuts:
            cuts[step](story)

    try:
        steps = stepper.run(backend, lambda steps: tell(steps, backend, story), before, seed)
        story.check()
    except BaseException as error:
        error.add_note(f"cut before { ({step: way.__name__ for step, way in cuts.items()}) }, {seed=}: {story.sent}")
        raise
    return story, steps


def untouched(backend: str, kind: tuple[int, bool], seed: int = 0) -> int:
    """How many steps there are without a cut."""
    story, steps = lived(backend, kind, {}, seed)
    assert story.did == ["begin", "inner False", "clean", "after False", "end"]
    assert story.reasons == ["end_turn"]
    return steps


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"version {kind[0]}{'' if kind[1] else ', folded'}")
@pytest.mark.parametrize("way", WAYS)
@backends
def test_a_cancel_at_any_step_leaves_one_end_of_each_child(backend: str, way: Way, kind: tuple[int, bool]) -> None:
    if not kind[1] and way in ONE:
        return  # a client that shows no children cannot name one
    seen: set[str] = set()
    for at in range(1, untouched(backend, kind) + 1):
        story, _ = lived(backend, kind, {at: way})
        seen |= {*story.did}
        if way in ONE:
            # The parent goes on, and only what was cancelled has seen it.
            assert story.reasons == ["end_turn"]
            assert story.did[-1] == "end"
            if way is cancel_the_grandchild:
                assert "after False" in story.did
        elif way in (cancel, close) and story.answers(FIRST):
            assert {*story.reasons} <= {"cancelled", "end_turn"}
    # The steps were not all alike.
    if way in ONE:
        assert ("after True" if way is cancel_the_child else "inner True") in seen
        assert "after False" in seen


@pytest.mark.parametrize(
    ("pair", "backend", "kind"),
    # Each on one of them: there are hundreds of turns in each.
    list(zip(PAIRS, itertools.cycle(["asyncio", "trio"]), itertools.cycle([(1, True), (1, True), (2, True)]))),
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_second_cancel_changes_nothing_for_the_worse(
    backend: str, pair: tuple[Way, Way], kind: tuple[int, bool]
) -> None:
    first, second = pair
    for at in range(1, untouched(backend, kind, seed=1) + 1):
        lived(backend, kind, {at: first, at + GAPS[at % len(GAPS)]: second}, seed=1)
