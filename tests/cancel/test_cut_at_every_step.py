"""A nested request is cancelled between any two steps of the scheduler, in every way there is; nothing may get lost."""

from collections.abc import Callable

import pytest

from tests.cancel import stepper
from tests.cancel.nested import CANCEL, Story, tell
from tests.peer.handlers import CANCELLED

Way = Callable[[Story], None]

GAPS = (1, 2, 3, 5, 8, 13)
"""Steps between one cancel and the next."""


def by_wire(story: Story) -> None:
    story.say(CANCEL)


def by_hand(story: Story) -> None:
    story.connection._inbound.cancel({"requestId": 1})


def by_eof(story: Story) -> None:
    story.send_eof()


def by_wire_and_eof(story: Story) -> None:
    story.say(CANCEL)
    story.send_eof()


def by_close(story: Story) -> None:
    story.connection.close()


def by_scope(story: Story) -> None:
    story.around.cancel()


def by_breaking(story: Story) -> None:
    story.end()


def by_impatience(story: Story) -> None:
    story.connection.watchdog.finish_now()


def by_native_cancel(story: Story) -> None:
    for task in list(story.connection.work._tasks):
        task.cancel()


WAYS = [by_wire, by_hand, by_eof, by_wire_and_eof, by_close, by_scope]

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
ways = pytest.mark.parametrize("way", WAYS)


def live(backend: str, story: Story, cuts: dict[int, Way], seed: int = 0) -> int:
    """Live through the story, with the cuts before the steps with these numbers; how many steps it took."""

    def before(step: int) -> None:
        if step in cuts:
            cuts[step](story)

    return stepper.run(backend, lambda steps: tell(steps, backend, story), before, seed)


def untouched(backend: str, heeds_cancel: bool = True, delay: int = 4, seed: int = 0) -> int:
    """How many steps there are when nobody cuts."""
    story = Story(heeds_cancel, delay)
    steps = live(backend, story, {}, seed)
    story.check()
    assert story.did == ["begin", "partial", "end", "clean"]
    assert story.created == story.held == story.released == [0]
    return steps


def describe(error: AssertionError, cuts: dict[int, Way], story: Story) -> None:
    error.add_note(f"cut before { ({step: way.__name__ for step, way in cuts.items()}) }: {story}")


@backends
def test_the_same_program_takes_the_same_steps(backend: str) -> None:
    first, second = Story(), Story()
    steps = live(backend, first, {20: by_wire})
    assert live(backend, second, {20: by_wire}) == steps
    assert first.events == second.events
    assert first.sent == second.sent
    assert len({untouched(backend) for _ in range(5)}) == 1


@pytest.mark.behaviour(
    "A1", "B1", "B2", "B3", "B4", "B16", "B17", "C1", "C2", "C3", "C4", "C11", "E1", "E3", "E6", "E11"
)
@pytest.mark.parametrize(("heeds_cancel", "delay", "seed"), [(True, 4, 0), (False, 4, 1), (True, 1, 2), (False, 7, 3)])
@ways
@backends
def test_a_cancel_at_any_step_leaves_one_answer_and_nothing_else(
    backend: str, way: Way, heeds_cancel: bool, delay: int, seed: int
) -> None:
    answers: list[object] = []
    late = 0
    for at in range(1, untouched(backend, heeds_cancel, delay, seed) + 1):
        story = Story(heeds_cancel, delay)
        live(backend, story, {at: way}, seed)
        try:
            story.check()
            if way in (by_wire, by_hand):
                # Nothing that the peer made for us is lost while it can still be told.
                assert sorted(story.released) == sorted(story.created)
        except AssertionError as error:
            describe(error, {at: way}, story)
            raise
        answers += story.answers()
        late += len(story.late)
    # The steps were not all alike.
    assert CANCELLED in answers
    assert {"done": 2} in answers
    if way in (by_wire, by_hand):
        assert {"done": 1} in answers
        assert late or heeds_cancel


@pytest.mark.behaviour("B8", "D9", "E11", "G1")
@pytest.mark.parametrize(
    ("way", "second", "backend"),
    # Each pair on one of them, and each way on both: as the first of the two, and as the second.
    [
        (way, second, ("asyncio", "trio")[(one + other) % 2])
        for one, way in enumerate(WAYS)
        for other, second in enumerate((by_hand, by_eof, by_close, by_scope))
    ],
)
def test_a_second_cancel_changes_nothing_for_the_worse(backend: str, way: Way, second: Way) -> None:
    for at in range(1, untouched(backend, heeds_cancel=False) + 1):
        story = Story(heeds_cancel=False)
        cuts = {at: way, at + GAPS[at % len(GAPS)]: second}
        live(backend, story, cuts)
        try:
            story.check()
        except AssertionError as error:
            describe(error, cuts, story)
            raise


@pytest.mark.behaviour("B8")
@backends
def test_cancels_at_every_later_step_do_not_disturb_the_cleanup(backend: str) -> None:
    steps = untouched(backend)
    for at in range(1, steps + 1):
        story = Story()
        cuts: dict[int, Way] = dict.fromkeys(range(at, at + steps), by_hand)
        live(backend, story, cuts)
        try:
            story.check()
            assert sorted(story.released) == sorted(story.created)
        except AssertionError as error:
            describe(error, {at: by_hand}, story)
            raise


@pytest.mark.behaviour("A1", "B17", "D6")
@backends
def test_a_request_whose_cleanup_is_not_waited_for_is_answered_once(backend: str) -> None:
    """The time for cleaning up ends between any two steps; the handler goes on behind the answer."""
    overtaken = 0
    for at in range(1, untouched(backend) + 1):
        gap = (0, *GAPS)[at % 7]
        story = Story()
        cuts = {at: by_hand, at + gap: by_impatience} if gap else {at: by_hand_and_impatience}
        live(backend, story, cuts)
        try:
            story.check_tables()
            assert len(story.answers()) == 1
            assert not story.did or story.did[-1] == "clean"
            assert sorted(story.released) == sorted(story.created)
        except AssertionError as error:
            describe(error, cuts, story)
            raise
        overtaken += any("does not end" in record.getMessage() for record in story.logged)
    assert overtaken


def by_hand_and_impatience(story: Story) -> None:
    by_hand(story)
    by_impatience(story)


@pytest.mark.behaviour("G1")
@pytest.mark.parametrize("then", [by_hand, by_breaking])
@backends
def test_a_peer_that_goes_away_at_any_step_leaves_nothing(backend: str, then: Way) -> None:
    for at in range(1, untouched(backend) + 1):
        story = Story()
        cuts = {at: by_breaking, at + GAPS[at % len(GAPS)]: then}
        live(backend, story, cuts)
        try:
            story.check_tables()
            assert len(story.answers()) <= 1
        except AssertionError as error:
            describe(error, cuts, story)
            raise


@pytest.mark.behaviour("A1", "D4")
def test_a_native_cancel_of_a_handler_at_any_step_is_answered_once() -> None:
    for at in range(1, untouched("asyncio") + 1):
        story = Story()
        cuts: dict[int, Way] = {at: by_native_cancel}
        if gap := (0, *GAPS)[at % 7]:
            cuts[at + gap] = by_hand
        live("asyncio", story, cuts)
        try:
            story.check_tables()
            assert len(story.answers()) == 1
        except AssertionError as error:
            describe(error, cuts, story)
            raise
