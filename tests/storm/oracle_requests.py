"""The promises of docs/cancellation.md and README.md about requests, each as a function that yields what breaks it."""

from collections.abc import Iterator
from typing import Any

from tests.storm.handlers import NOT_NOW
from tests.storm.promise import promise
from tests.storm.requests import LIFE, Cut, Request, Requests
from tests.storm.story import Story

CANCELLED = {"stopReason": "cancelled"}
END_TURN = {"stopReason": "end_turn"}
REQUEST_CANCELLED = -32800


@promise("one-answer", "cancellation.md: every request is answered exactly once")
def _one_answer(story: Story, requests: Requests) -> Iterator[str]:
    answers = story.client.answers
    ids = dict.fromkeys(request.id for request in requests.all)
    for id in ids:
        asked = sum(request.id == id for request in requests.all)
        got = len(answers.get(id, ())) + len(answers.get(("duplicate", id), ()))
        if got > asked or (got < asked and can_arrive(story)):
            yield f"{got} answers for {asked} requests with id {id!r}"
    known = {request.id for request in requests.all}
    for id in answers:
        if id is not None and id not in known and not (isinstance(id, tuple) and id[1] in known):
            yield f"an answer to {id!r}, which was not asked"


def can_arrive(story: Story) -> bool:
    """Whether all that the agent says can reach the client."""
    stalled = bool(story.stalls) and story.stalls[-1][1] is None
    stalled_at_end = stalled or any(
        story.ended is not None and stop is not None and stop.order > story.ended.order for _, stop in story.stalls
    )
    # A bridge waits for so long and then says goodbye; what the agent says last has no way then.
    is_cut_off = story.transport is not None and story.end != "calm"
    return story.end not in ("broken", "no reader") and not stalled_at_end and not is_cut_off


@promise("answer-of-a-prompt", "cancellation.md: who cancels what, and which answer follows; the first cause stands")
def _answer_of_a_prompt(story: Story, requests: Requests) -> Iterator[str]:
    for prompt in requests.single("session/prompt"):
        if not prompt.answers:
            continue
        of_prompt = _of_prompt if story.version == 1 else _of_prompt_v2
        expected = list(of_prompt(story, requests, prompt))
        if prompt.outcome not in expected:
            yield f"expected one of {expected}: {prompt}"


def _of_prompt(story: Story, requests: Requests, prompt: Request) -> Iterator[Any]:
    if prompt.begun is None:
        if prompt.outcome == -32002:
            # Where it may have been closed, deleted or not be open for a moment.
            yield from [-32002] if prompt.session == "unknown" or _life(requests, prompt) else []
            return
        if prompt.outcome == -32600:
            yield from [-32600] if _is_busy(requests, prompt) else []
            return
    end = requests.end
    is_late = end is not None and end.when < prompt.heard
    if prompt.cut is None and not is_late and _must_be_refused(story, requests, prompt):
        yield -32600
        return
    yield from _of_work(story, requests, prompt)


def _of_prompt_v2(story: Story, requests: Requests, prompt: Request) -> Iterator[Any]:
    steered = story.journal.first("steered", prompt.key) is not None
    if prompt.inserted is not None:
        if steered and prompt.begun is None:
            # It is a part of another one's work.
            yield prompt.outcome
        elif prompt.cut is None or prompt.cut.when > (prompt.inserted.order, 0):
            yield from _of_work(story, requests, prompt)
        return
    end = requests.end
    if prompt.cut is not None or (end is not None and (prompt.answers[0].note.order, 0) > end.when):
        yield REQUEST_CANCELLED
    if steered:
        yield NOT_NOW
    if prompt.outcome == -32002 and (prompt.session == "unknown" or _life(requests, prompt)):
        yield -32002
    if prompt.outcome == -32600 and _is_busy(requests, prompt):
        # Something in its session is being closed, or was cancelled and does not end.
        yield -32600


def _of_work(story: Story, requests: Requests, prompt: Request) -> Iterator[Any]:
    end = requests.end
    ending = end is not None and end.when < prompt.finish
    if prompt.cut is None or (ending and end is not None and end.when < prompt.cut.when):
        if ending:
            yield REQUEST_CANCELLED
        if prompt.finished is not None:
            yield _own_outcome(prompt)
    if prompt.cut is not None:
        yield REQUEST_CANCELLED if prompt.cut.why == "timeout" else CANCELLED


def _own_outcome(request: Request) -> Any:
    """What its handler made of it."""
    assert request.finished is not None
    if request.finished.what == "returned":
        return END_TURN if request.method == "session/prompt" else {"returned": request.key}
    raised = request.finished.more
    if all(failure in ("ConnectionClosed", "TimeoutError") for failure in raised):
        return REQUEST_CANCELLED
    return raised[0] if len(raised) == 1 and isinstance(raised[0], int) else -32603


def _life(requests: Requests, prompt: Request) -> list[Request]:
    return [r for r in requests.all if r.method in LIFE and r.session == prompt.session and r.heard < prompt.heard]


def _is_busy(requests: Requests, prompt: Request) -> bool:
    """Whether it may be refused because of something else in its session."""
    return any(
        other.session == prompt.session
        and other.method in ("session/prompt", *LIFE)
        and other.heard < prompt.heard
        and (not other.answers or (other.answers[0].note.order, 0) > prompt.heard or other.finish > prompt.heard)
        for other in requests.all
    )


def _must_be_refused(story: Story, requests: Requests, prompt: Request) -> bool:
    """Whether another turn of its session runs when it arrives. A cancel of that turn may be applied before what it was
    read together with (cancellation.md: cancels under load)."""
    return any(
        other.session == prompt.session
        and other.begun is not None
        and (other.begun.order, 0) < prompt.heard < other.finish
        and (other.cut is None or (prompt.heard < other.cut.when and not _read_together(story, prompt, other.cut)))
        for other in requests.single("session/prompt")
    )


def _read_together(story: Story, prompt: Request, cut: Cut) -> bool:
    """Whether the agent did nothing but read between the two."""
    first, last = prompt.heard[0], cut.when[0]
    return all(note.what in ("heard", "sent") for note in story.journal.notes if first < note.order < last)


@promise("answer-of-a-method", "cancellation.md: what the function returns all the same, else its last partial")
def _answer_of_a_method(story: Story, requests: Requests) -> Iterator[str]:
    for method in requests.single("_storm/play", "_storm/thread"):
        if not method.answers:
            continue
        expected = list(_of_method(story, requests, method))
        if method.outcome not in expected:
            yield f"expected one of {expected}: {method}"


def _of_method(story: Story, requests: Requests, method: Request) -> Iterator[Any]:
    end = requests.end
    if end is not None and end.when < method.finish:
        yield REQUEST_CANCELLED
    cut = method.cut
    if cut is None:
        if method.finished is not None:
            yield _own_outcome(method)
        return
    patience = cut.time + story.limits.end_grace
    finished = method.finished
    if finished is not None and finished.what == "returned" and finished.time <= patience + story.slack:
        yield _own_outcome(method)
        if finished.time < patience - story.slack:
            return
    # A native task of the handler's may go on behind it.
    offered = [note for note in story.journal.of("partial", method.key) if (note.order, 0) < method.finish]
    partials = [note.more for note in offered]
    late = [note for note in offered if note.time >= patience - story.slack]
    if len(partials) == len(late):
        yield REQUEST_CANCELLED
    yield from ({"part": tag} for tag in partials[-len(late) - 1 :])


@promise("answer-of-a-session-request", "cancellation.md: -32800, and there is no session")
def _answer_of_a_session_request(story: Story, requests: Requests) -> Iterator[str]:
    for request in requests.single("session/new", "session/list", *LIFE):
        if request.answers and isinstance(request.outcome, int):
            gone = request.method in ("session/load", "session/resume")
            allowed = [-32002] if gone else []
            end = requests.end
            if request.cut is not None or (end is not None and (request.answers[0].note.order, 0) > end.when):
                allowed.append(REQUEST_CANCELLED)
            if request.outcome not in allowed:
                yield f"expected a result or one of {allowed}: {request}"


@promise("cancelled-before-it-began", "cancellation.md: in the same chunk as its request, the handler is not called")
def _cancelled_before_it_began(story: Story, requests: Requests) -> Iterator[str]:
    for request in requests.all:
        if request.begun is not None and request.id not in requests.repeated:
            # When a thread begins is told from when its request begins only if both were to be in one chunk.
            latest = request.heard[0] + 1 if request.method == "_storm/thread" else request.begun.order
            for cut in request.cuts:
                if request.heard < cut.when < (latest, 0):
                    yield f"began after it was cancelled by {cut.why}: {request}"


_ROUNDS = 8
"""Rounds of the loop from the end of the patience to the answer, on version 2 the session's idle. While a task is
cancelled anew in each round, one takes a slack."""


@promise("bounded-answer", "cancellation.md: all cleanup of a request together has `Limits.grace`")
def _bounded_answer(story: Story, requests: Requests) -> Iterator[str]:
    grace = story.limits.end_grace
    for request in requests.single("session/prompt", "_storm/play", "_storm/thread", "session/new", *LIFE):
        if request.cut is None or not request.answers:
            continue
        answered = request.answers[0].note
        # Those that end a session wait for its turns, for each other, and for what the session holds.
        bound = grace * (1 + 3 * len([*_life(requests, request), request]) if request.method in LIFE else 1)
        read = [
            stop.time if stop else answered.time
            for _, stop in story.stalls
            if stop is None or stop.time > request.cut.time
        ]
        if answered.time > max([request.cut.time, *read]) + bound + _ROUNDS * story.slack:
            yield f"answered at {answered.time:g} s: {request}"


@promise("one-turn-at-a-time", "agents.md: turns of one session run one at a time")
def _one_turn_at_a_time(story: Story, requests: Requests) -> Iterator[str]:
    begun = [prompt for prompt in requests.single("session/prompt") if prompt.begun is not None]
    for first in begun:
        for second in begun:
            if first is not second and first.session == second.session and not _life(requests, second):
                assert first.begun is not None
                assert second.begun is not None
                if first.begun.order < second.begun.order < first.finish[0]:
                    yield f"{second.key} began while {first.key} ran"


@promise("whole-frames", "README.md: JSON-RPC 2.0 over stdio, one message a line")
def _whole_frames(story: Story, requests: Requests) -> Iterator[str]:
    for line in story.client.torn:
        yield f"not a message: {line!r}"
    if story.client.unread and can_arrive(story):
        yield f"left over: {story.client.unread!r}"


@promise("bounded-end", "README.md: each has its defined end, whatever handlers, tasks and threads still do")
def _bounded_end(story: Story, requests: Requests) -> Iterator[str]:
    limits = story.limits
    bound = limits.drain + 2 * limits.end_grace + 2 * limits.flush + story.slack
    if story.closed is None or story.ended is None or story.closed.time > story.ended.time + bound:
        yield f"{story.end} at {story.ended}, closed: {story.closed}"


@promise("nothing-left", "README.md: what runs is one tree of tasks; K1 to K6 of the behaviours")
def _nothing_left(story: Story, requests: Requests) -> Iterator[str]:
    yield from story.left


@promise("a-good-request-works", "README.md: cancellation that always works")
def _a_good_request_works(story: Story, requests: Requests) -> Iterator[str]:
    if story.end == "calm" and not story.good:
        yield "the storm did not end calmly"
    for sent in story.good:
        (request,) = [request for request in requests.all if request.sent is sent]
        answers = [received.message.get("result") for received in request.answers]
        if answers != [END_TURN]:
            yield f"{sent.message['id']!r} in {sent.message['params']['sessionId']}: {answers}"
