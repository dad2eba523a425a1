"""The answer of a batch is one array, and goes out when its last place is filled."""

import json

import pytest

from acp_server.wire.batch import Batches


@pytest.mark.behaviour("H3")
def test_the_array_keeps_the_order_of_the_places() -> None:
    batch = Batches().begin()
    first, second, third = batch.open(), batch.open(), batch.open()
    assert third.fill(b"3\n") is None
    assert batch.seal() is None
    assert first.fill(b"1\n") is None
    assert second.fill(b"2\n") == b"[1,2,3]\n"


@pytest.mark.behaviour("H3")
def test_a_batch_without_places_has_no_answer() -> None:
    assert Batches().begin().seal() is None


def test_nothing_goes_out_while_members_may_still_come() -> None:
    batch = Batches().begin()
    assert batch.open().fill(b"1\n") is None
    assert batch.open().fill(b"2\n") is None
    array = batch.seal()
    assert array is not None
    assert json.loads(array) == [1, 2]


@pytest.mark.behaviour("H8")
def test_places_are_told_apart_by_position() -> None:
    batch = Batches().begin()
    first, second = batch.open(), batch.open()
    batch.seal()
    assert (first.position, second.position) == (0, 1)
    assert second.fill(b'{"id":1}\n') is None
    assert first.fill(b'{"id":1}\n') == b'[{"id":1},{"id":1}]\n'


def test_what_unfinished_batches_hold_fills_them_at_the_limit_and_not_before() -> None:
    batches = Batches(limit=400)
    batch = batches.begin()
    batch.open()
    batch.open()
    left = 400 - batches.held
    assert batch.has_room(b"x" * left)
    assert not batch.has_room(b"x" * (left + 1))
    batch.add(b"x" * (left - 101))
    assert (batches.held, batches.full) == (399, False)
    batch.fill(0, b"x")
    assert (batches.held, batches.full) == (400, True)


def test_only_the_answer_that_ends_a_batch_needs_no_room() -> None:
    batches = Batches(limit=100)
    batch = batches.begin()
    only = batch.open()
    assert not only.has_room(b"1\n")  # more members may come, and this answer would be held until then
    batch.seal()
    assert only.has_room(b"1\n")
