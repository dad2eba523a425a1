"""The order of sessions in memory: right after any changes, and as cheap with many as with few."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.store.memory import Place, Shelf

IDS = st.sampled_from(["a", "b", "c", "d", "e"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), IDS, st.sampled_from(["/p", "/q"]), st.sampled_from([1.0, 2.0, 3.0])),
        st.tuples(st.just("remove"), IDS),
        st.tuples(st.just("list")),
    )
)


@given(
    st.sampled_from([0, 2, 1000]),
    CHANGES,
    st.sampled_from([None, "/p", "/q"]),
    st.none() | st.tuples(st.sampled_from([1.0, 2.0, 2.5]), IDS),
)
def test_a_page_is_a_piece_of_what_sorting_all_of_them_would_give(
    most_moved: int, changes: list[tuple[str, ...]], cwd: str | None, behind: tuple[float, str] | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acp_server.store.memory._MOST_MOVED", most_moved)
        compare(changes, cwd, behind)


def compare(changes: list[tuple[str, ...]], cwd: str | None, behind: tuple[float, str] | None) -> None:
    shelf = Shelf()
    model: dict[str, tuple[str, float]] = {}
    for what, *rest in changes:
        if what == "list":
            shelf.page(None, None, 2)
            continue
        id = rest.pop(0)
        if what == "put":
            place, used = rest
            shelf.put(id, place, float(used))
            model[id] = place, float(used)
        else:
            shelf.remove(id)
            model.pop(id, None)
    everything = sorted((Place(used, id) for id, (_, used) in model.items()), reverse=True)
    assert shelf.last == (everything[-1].id if everything else None)
    found = [
        place
        for place in everything
        if (cwd is None or model[place.id][0] == cwd) and (behind is None or place < behind)
    ]
    for size in (1, 2, 5):
        assert shelf.page(cwd, behind, size) == (found[:size], len(found) > size)
    assert set(shelf._by_cwd) == {cwd for cwd, _ in model.values()}


class _Compared(float):
    """A time that counts how often it is compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        _Compared.times += 1
        return super().__eq__(other)

    def __lt__(self, other: float) -> bool:
        _Compared.times += 1
        return super().__lt__(other)

    __hash__ = float.__hash__


def _cost(count: int) -> tuple[int, int]:
    """How many comparisons and how many bytes a page among so many sessions needs."""
    shelf = Shelf()
    for number in range(count):
        shelf.put(f"s{number}", f"/{number % 7}", _Compared(number))
    places, _more = shelf.page(None, None, 50)
    _Compared.times = 0
    tracemalloc.start()
    try:
        shelf.page(None, None, 50)
        shelf.page("/3", places[-1], 50)
        return _Compared.times, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_page_costs_the_same_however_many_sessions_there_are() -> None:
    few, many = _cost(200), _cost(50_000)
    # It is found by halves, and no more of the order than the page is copied.
    assert few[0] > 0
    assert many[0] < 4 * few[0]
    assert many[1] < 2 * few[1]
