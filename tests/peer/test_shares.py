"""A bound that several holders share: it holds for the sum, and each holder finds room."""

import pytest

from acp_server.peer.shares import Share


def taken(share: Share) -> int:
    """How much one more holder gets, byte by byte."""
    held = 0
    while share.take(1, held):
        held += 1
    return held


def test_a_holder_gets_as_many_bytes_as_it_leaves_free() -> None:
    share = Share(1000)
    assert [taken(share) for _ in range(4)] == [500, 250, 125, 62]
    assert share.size == 937
    share.count(-500)
    assert taken(share) == 281


def test_holders_that_grow_together_get_the_same() -> None:
    share, held = Share(1000), [0] * 9
    while any(grown := [share.take(1, each) for each in held]):
        held = [each + grew for each, grew in zip(held, grown, strict=True)]
    assert held == [100] * 9


def test_a_client_with_many_holders_leaves_room_for_the_holders_of_another() -> None:
    whole = Share(1000)
    greedy, other = Share(above=whole), Share(above=whole)
    for _ in range(100):
        taken(greedy)
    assert (greedy.size, whole.size) == (499, 499)
    assert taken(other) == 167


def test_a_share_has_a_bound_of_its_own_and_counts_in_the_whole() -> None:
    whole = Share(1000)
    share = Share(100, whole)
    assert taken(share) == 50
    share.count(60)
    assert (share.size, whole.size, share.free(), whole.free()) == (110, 110, -10, 890)
    share.count(-110)
    assert (share.size, whole.size) == (0, 0)


@pytest.mark.parametrize("more", [501, 1001])
def test_what_is_refused_is_not_counted(more: int) -> None:
    share = Share(1000)
    assert not share.take(more)
    assert share.size == 0
