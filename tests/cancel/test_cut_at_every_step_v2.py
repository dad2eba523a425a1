"""A conversation of version 2 is cancelled between any two steps of the scheduler, in every way there is."""

import itertools
from collections.abc import Callable

import pytest

from tests.cancel import stepper
from tests.cancel.conversation import AGAIN, END, FIRST, SECOND, STOP, TOOL, Conversation, tell

Way = Callable[[Conversation], None]

GAPS = (1, 2, 3, 5, 8, 13)
"""Steps between one cancel and the next."""


def cancel(story: Conversation) -> None:
    story.stop("session/cancel")


def withdraw_the_first(story: Conversation) -> None:
    story.stop("$/cancel_request", requestId=FIRST)


def withdraw_the_second(story: Conversation) -> None:
    story.stop("$/cancel_request", requestId=SECOND)


def cancel_the_call(story: Conversation) -> None:
    story.stop("tool_call/cancel", STOP, toolCallId=TOOL)


def close(story: Conversation) -> None:
    story.stop("session/close", END)


def delete(story: Conversation) -> None:
    story.stop("session/delete", END)


def resume(story: Conversation) -> None:
    story.stop("session/resume", END, cwd="/project")


def close_again(story: Conversation) -> None:
    story.stop("session/close", AGAIN)


def withdraw_the_end(story: Conversation) -> None:
    story.stop("$/cancel_request", requestId=END)


def end_input(story: Conversation) -> None:
    story.send_eof()


def close_connection(story: Conversation) -> None:
    story.connection.close()


def cancel_scope(story: Conversation) -> None:
    story.around.cancel()


WAYS: list[Way] = [
    cancel,
    withdraw_the_first,
    withdraw_the_second,
    cancel_the_call,
    close,
    delete,
    resume,
    end_input,
    close_connection,
    cancel_scope,
]

PAIRS: list[tuple[Way, Way]] = [
    (cancel, close),
    (cancel, cancel),
    (cancel, cancel_the_call),
    (cancel_the_call, cancel),
    (cancel_the_call, close),
    (withdraw_the_second, cancel),
    (withdraw_the_second, close),
    (close, withdraw_the_end),
    (close, close_again),
    (close, cancel),
    (resume, withdraw_the_end),
    (resume, close_again),
    (close, end_input),
    (cancel, close_connection),
]

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def live(backend: str, story: Conversation, cuts: dict[int, Way], seed: int = 0) -> int:
    """Live through it, with the cuts before the steps with these numbers; how many steps it took."""

    def before(step: int) -> None:
        if step in cuts:
            cuts[step](story)

    return stepper.run(backend, lambda steps: tell(steps, backend, story), before, seed)


def untouched(backend: str, heeds_cancel: bool = True, delay: int = 2, seed: int = 0) -> int:
    """How many steps there are when nobody cuts."""
    story = Conversation(heeds_cancel, delay)
    steps = live(backend, story, {}, seed)
    story.check()
    assert story.did == ["begin first", "tool", "clean first", "begin second", "clean second"]
    assert story.reasons == ["end_turn", "end_turn"]
    return steps


def lived(
    backend: str, cuts: dict[int, Way], seed: int = 0, *, heeds_cancel: bool = True, delay: int = 2
) -> Conversation:
    """A conversation that was lived through, and is as it must be."""
    story = Conversation(heeds_cancel, delay)
    try:
        live(backend, story, cuts, seed)
        story.check()
    except BaseException as error:
        error.add_note(f"cut before { ({step: way.__name__ for step, way in cuts.items()}) }, {seed=}: {story.sent}")
        raise
    return story


@pytest.mark.behaviour("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10")
@pytest.mark.parametrize("way", WAYS)
@backends
def test_a_cancel_at_any_step_leaves_one_answer_and_one_idle(backend: str, way: Way) -> None:
    reasons: set[str] = set()
    answers: list[object] = []
    for at in range(1, untouched(backend) + 1):
        story = lived(backend, {at: way})
        reasons |= {*story.reasons}
        answers += story.answers(SECOND) + story.answers(STOP)
    # The steps were not all alike.
    if way in (cancel, close, delete, resume):
        assert {"cancelled", "end_turn"} <= reasons
        assert -32800 in answers
    elif way is withdraw_the_second:
        assert -32800 in answers
        assert reasons == {"end_turn"}
    elif way is withdraw_the_first:
        assert reasons == {"end_turn"}
    elif way is cancel_the_call:
        assert {} in answers
        assert -32602 in answers
        assert reasons == {"end_turn"}
    else:
        assert "error" in reasons


@pytest.mark.behaviour("M2", "M3", "M9", "M10")
@pytest.mark.parametrize(
    ("pair", "backend"),
    # Each on one of them: there are thousands of conversations in each.
    list(zip(PAIRS, itertools.cycle(["asyncio", "trio"]))),
    ids=lambda value: value if isinstance(value, str) else " ".join(way.__name__ for way in value),
)
def test_a_second_cancel_changes_nothing_for_the_worse(backend: str, pair: tuple[Way, Way]) -> None:
    first, second = pair
    heeds_cancel, delay, seed = False, 3, 1
    for at in range(1, untouched(backend, heeds_cancel, delay, seed) + 1):
        lived(backend, {at: first, at + GAPS[at % len(GAPS)]: second}, seed, heeds_cancel=heeds_cancel, delay=delay)
