"""The order of sessions in memory: right after any changes, and as cheap with many as with few."""

from time import process_time

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
    assert len(shelf) == len(everything)
    assert shelf.last == (everything[-1].id if everything else None)
    found = [
        place
        for place in everything
        if (cwd is None or model[place.id][0] == cwd) and (behind is None or place < behind)
    ]
    for size in (1, 2, 5):
        assert shelf.page(cwd, behind, size) == (found[:size], len(found) > size)
    assert set(shelf._by_cwd) == {cwd for cwd, _ in model.values()}


def _cost(count: int) -> float:
    """CPU seconds for a page among so many sessions."""
    shelf = Shelf()
    for number in range(count):
        shelf.put(f"s{number}", f"/{number % 7}", float(number))
    start = process_time()
    for _ in range(100):
        places, _more = shelf.page(None, None, 50)
        shelf.page("/3", places[-1], 50)
    return process_time() - start


def test_a_page_costs_the_same_however_many_sessions_there_are() -> None:
    # The least of several is what it costs; more is what else the machine does.
    few = min(_cost(200) for _ in range(5))
    assert min(_cost(50_000) for _ in range(5)) < 10 * few
