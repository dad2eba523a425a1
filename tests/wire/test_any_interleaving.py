"""Whatever comes in whatever order: each request is answered once, and at the end no answer is missing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from acp_server.errors import EncodeError, RpcError
from acp_server.wire.messages import Notification, Request
from acp_server.wire.state_machine import Answered, Dropped, Endpoint, Outgoing, OutgoingRequest, RequestState
from tests.wire.live import cancel, notification, request, strict

IDS = st.sampled_from([0, 1, "0", "1", None])
ANY = st.integers(0, 99)
OUTCOMES = st.sampled_from([{"result": 1}, {"error": {"code": 1, "message": ""}}])
MALFORMED = st.sampled_from(
    [{}, {"error": "nope"}, {"result": 1, "error": {"code": 1, "message": ""}}, {"error": None}]
)
TO_NOBODY = st.sampled_from(["0", None, False, 0.0, -1, 10_000, [0], 2**70])
NO_MESSAGES = st.sampled_from(
    [
        17,
        None,
        [],
        {},
        {"jsonrpc": "2.0", "method": 5},
        {"id": 1, "method": "x"},
        request(True, "x"),
        request(1, "x", 5),
    ]
)
INCOMING = (
    st.builds(request, IDS, st.just("x"))
    | st.builds(cancel, IDS)
    | st.sampled_from([notification("n"), notification("n", 5)])
    | NO_MESSAGES
)
RESPONSES = st.builds(
    lambda id, members: {"jsonrpc": "2.0", "id": id} | members, st.integers(0, 9) | TO_NOBODY, OUTCOMES | MALFORMED
)


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def pick(items: list[Any], number: int) -> Any:
    return items[number % len(items)]


class Interleaving(RuleBasedStateMachine):
    """One endpoint against a model of what it must answer."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoint = Endpoint()
        self.pending: list[Request] = []
        self.paid: list[Request] = []
        self.due: list[str] = []
        """The id that the answer with this number must have, as its repr: 1 is not True and not "1"."""
        self.frames: list[bytes] = []
        self.asked: list[OutgoingRequest] = []

    # What arrives

    @rule(message=INCOMING, cut=ANY)
    def a_message(self, message: Any, cut: int) -> None:
        self._arrive(line(message), cut)

    @rule(messages=st.lists(INCOMING | RESPONSES, min_size=1, max_size=5), cut=ANY)
    def a_batch(self, messages: list[Any], cut: int) -> None:
        self._arrive(line(messages), cut)

    @rule(
        messages=st.lists(INCOMING | RESPONSES, max_size=5).map(lambda messages: b"".join(map(line, messages))), cut=ANY
    )
    def several_at_once(self, messages: bytes, cut: int) -> None:
        self._arrive(messages, cut)

    @rule(response=RESPONSES, cut=ANY)
    def a_response(self, response: Any, cut: int) -> None:
        before = len(self.frames)
        self._arrive(line(response), cut)
        assert len(self.frames) == before

    @precondition(lambda self: self.asked)
    @rule(number=ANY, members=OUTCOMES | MALFORMED)
    def the_answer_of_one_of_ours(self, number: int, members: Any) -> None:
        asked = pick(self.asked, number)
        before = asked.state
        (event,) = self.endpoint.receive(line({"jsonrpc": "2.0", "id": asked.id} | members))
        if before is RequestState.WAITING or (before is RequestState.WITHDRAWN and asked.wants_late_answer):
            assert isinstance(event, Answered)
            assert event.request is asked
            assert event.late == (before is RequestState.WITHDRAWN)
            assert (event.response.result, event.response.error) == (members.get("result"), members.get("error")) or (
                event.response.malformed
            )
        else:
            assert isinstance(event, Dropped)
            assert asked.state is before

    @rule(junk=st.binary(max_size=20).filter(lambda junk: b"\n" not in junk))
    def noise(self, junk: bytes) -> None:
        self._arrive(junk + b"\n", 0)

    # What leaves

    @precondition(lambda self: self.pending)
    @rule(number=ANY, how=st.sampled_from(["result", "error", "unwritable result", "unwritable error"]))
    def answer(self, number: int, how: str) -> None:
        pending = pick(self.pending, number)
        if how == "unwritable result":
            with pytest.raises(EncodeError):
                self.endpoint.answer(pending, object())
        self._answer(pending, with_error=how != "result")

    @precondition(lambda self: self.paid)
    @rule(number=ANY)
    def answer_again(self, number: int) -> None:
        paid = pick(self.paid, number)
        assert self.endpoint.answer(paid, "again") is None
        assert self.endpoint.refuse(paid, RpcError("again", data=object())) is None

    @rule(wants_late_answer=st.booleans(), writable=st.booleans())
    def ask(self, wants_late_answer: bool, writable: bool) -> None:
        asked = OutgoingRequest("x", wants_late_answer)
        if not writable:
            with pytest.raises(EncodeError):
                self.endpoint.request(asked, object())
        self.frames.append(self.endpoint.request(asked, None))
        assert asked.id == strict(self.frames[-1])["id"] == len(self.asked)
        self.asked.append(asked)

    @precondition(lambda self: self.asked)
    @rule(number=ANY)
    def withdraw(self, number: int) -> None:
        asked = pick(self.asked, number)
        was_waiting = asked.state is RequestState.WAITING
        frame = self.endpoint.withdraw(asked)
        assert frame == (line_of_cancel(asked) if was_waiting else None)
        assert asked.state is not RequestState.WAITING

    @rule()
    def lose_all(self) -> None:
        waiting = [asked for asked in self.asked if asked.state is RequestState.WAITING]
        assert self.endpoint.ledger.lose_all() == waiting

    # What must hold

    @invariant()
    def the_tables_hold_what_is_pending(self) -> None:
        ledger = self.endpoint.ledger
        late = [a for a in self.asked if a.state is RequestState.WITHDRAWN and a.wants_late_answer]
        assert len(self.endpoint.incoming) == len(self.pending)
        assert all(self.endpoint.incoming.get(pending.id) is pending for pending in self.pending)
        assert ledger.outgoing == sum(asked.state is RequestState.WAITING for asked in self.asked)
        assert ledger.withdrawn == len(late)

    def teardown(self) -> None:
        for event in [*self.endpoint.receive(b'{"jsonrpc":"2.0"'), *self.endpoint.receive_eof()]:
            self._event(event)
        while self.pending:
            self._answer(self.pending[0], with_error=False)
        self.endpoint.ledger.lose_all()
        self.the_tables_hold_what_is_pending()
        assert self.endpoint.ledger.outgoing == self.endpoint.ledger.withdrawn == 0
        answers = dict(self._numbered_answers())
        assert answers == dict(enumerate(self.due))

    def _arrive(self, data: bytes, cut: int) -> None:
        for chunk in (data[:cut], data[cut:]):
            for event in self.endpoint.receive(chunk):
                self._event(event)

    def _event(self, event: Any) -> None:
        if isinstance(event, Request):
            assert event not in self.paid
            self.pending.append(event)
        elif isinstance(event, Outgoing):
            self.frames.append(event.frame)
        elif isinstance(event, Answered):
            assert event.request.state is RequestState.ANSWERED
        else:
            assert isinstance(event, Notification | Dropped)

    def _answer(self, pending: Request, *, with_error: bool) -> None:
        number = len(self.due)
        if with_error:
            frame = self.endpoint.refuse(pending, RpcError(str(number), code=1, data=object()))
        else:
            frame = self.endpoint.answer(pending, number)
        self.due.append(repr(pending.id))
        self.pending.remove(pending)
        self.paid.append(pending)
        assert frame is not None or pending.slot is not None
        if frame is not None:
            self.frames.append(frame)

    def _numbered_answers(self) -> Iterator[tuple[int, str]]:
        """The answers that went out to requests, by their numbers, each seen once."""
        seen: set[int] = set()
        for frame in self.frames:
            value = strict(frame)
            for message in value if isinstance(value, list) else [value]:
                if "method" in message:
                    continue
                error = message.get("error")
                if error is not None and error["code"] != 1:
                    assert error["code"] in (-32700, -32600)
                    continue
                number = message["result"] if error is None else int(error["message"])
                assert number not in seen
                seen.add(number)
                yield number, repr(message["id"])


def line_of_cancel(asked: OutgoingRequest) -> bytes:
    return b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}\n' % asked.id


@pytest.mark.behaviour("A1", "A11", "A12", "C16", "H3", "H8")
class TestInterleaving(Interleaving.TestCase):
    settings = settings(max_examples=100, stateful_step_count=40)


class Side:
    """One of two endpoints back to back, with what is on its way to it."""

    def __init__(self) -> None:
        self.endpoint = Endpoint()
        self.inbox: list[bytes] = []
        self.pending: list[Request] = []
        self.asked: list[OutgoingRequest] = []
        self.complaints = 0


class BackToBack(RuleBasedStateMachine):
    """Two endpoints, each the peer of the other, and noise on the line."""

    def __init__(self) -> None:
        super().__init__()
        self.sides = (Side(), Side())
        self.noise_heard = 0

    @rule(side=st.sampled_from([0, 1]), wants_late_answer=st.booleans())
    def ask(self, side: int, wants_late_answer: bool) -> None:
        asked = OutgoingRequest("x", wants_late_answer)
        self.sides[1 - side].inbox.append(self.sides[side].endpoint.request(asked, None))
        self.sides[side].asked.append(asked)

    @rule(side=st.sampled_from([0, 1]), number=ANY)
    def withdraw(self, side: int, number: int) -> None:
        if asked := self.sides[side].asked:
            frame = self.sides[side].endpoint.withdraw(pick(asked, number))
            if frame is not None:
                self.sides[1 - side].inbox.append(frame)

    @rule(side=st.sampled_from([0, 1]), number=ANY)
    def answer(self, side: int, number: int) -> None:
        if pending := self.sides[side].pending:
            frame = self.sides[side].endpoint.answer(pending.pop(number % len(pending)), number)
            assert frame is not None
            self.sides[1 - side].inbox.append(frame)

    @rule(side=st.sampled_from([0, 1]), junk=NO_MESSAGES.map(line) | st.sampled_from([b"\xff\n", b"{\n", b"[1,2]\n"]))
    def noise(self, side: int, junk: bytes) -> None:
        self.sides[side].inbox.append(junk)
        self.noise_heard += 1

    @rule(side=st.sampled_from([0, 1]))
    def deliver(self, side: int) -> None:
        here, there = self.sides[side], self.sides[1 - side]
        inbox, here.inbox = here.inbox, []
        for event in here.endpoint.receive(b"".join(inbox)):
            if isinstance(event, Request):
                here.pending.append(event)
            elif isinstance(event, Outgoing):
                here.complaints += 1
                there.inbox.append(event.frame)

    def teardown(self) -> None:
        # Deliver what is on its way, answer, deliver the answers and the complaints: then there is silence.
        for side in (0, 1):
            self.deliver(side)
        for side in (0, 1):
            while self.sides[side].pending:
                self.answer(side, 0)
        for side in (0, 1, 0, 1):
            self.deliver(side)
        for side in self.sides:
            assert side.inbox == []
            ledger = side.endpoint.ledger
            assert (len(side.endpoint.incoming), ledger.outgoing, ledger.withdrawn) == (0, 0, 0)
            assert all(a.state in (RequestState.ANSWERED, RequestState.WITHDRAWN) for a in side.asked)
        assert sum(side.complaints for side in self.sides) == self.noise_heard


@pytest.mark.behaviour("A11", "B12", "E3")
class TestBackToBack(BackToBack.TestCase):
    settings = settings(max_examples=100, stateful_step_count=40)


@pytest.mark.behaviour("A11")
@given(st.lists(st.binary(max_size=30) | (INCOMING | RESPONSES).map(json.dumps).map(str.encode), max_size=8))
def test_what_is_said_to_noise_is_never_answered_again(noise: list[bytes]) -> None:
    left, right = Endpoint(), Endpoint()
    said: list[bytes] = []
    for event in left.receive(b"\n".join(noise) + b"\n"):
        if isinstance(event, Outgoing):
            said.append(event.frame)
        elif isinstance(event, Request):
            frame = left.refuse(event, RpcError(code=-32601))
            assert frame is not None
            said.append(frame)
    assert all(isinstance(event, Dropped) for event in right.receive(b"".join(said)))
