"""Generators in a worker thread: as they come, held back by a slow consumer, and stopped whenever nobody waits."""

import asyncio
import threading
from collections.abc import Generator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from acp_server.apps.coder import batches as batches_module
from acp_server.apps.coder.batches import SLICE_ITEMS, Batches
from acp_server.apps.coder.roots import Roots
from acp_server.apps.coder.search import Search

from .trees import plant

pytestmark = pytest.mark.anyio


class Source:
    """A generator of numbers that notes what happens to it."""

    def __init__(self) -> None:
        self.generated = 0
        self.threads: set[int] = set()
        self.closed = threading.Event()

    def run(self, limit: int | None = None, pulse: bool = False) -> Generator[int | None]:
        try:
            for number in count():
                if number == limit:
                    return
                self.threads.add(threading.get_ident())
                self.generated += 1
                yield None if pulse else number
        finally:
            self.closed.set()


@pytest.fixture
def endless_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slice ends because time has passed."""
    monkeypatch.setattr(batches_module, "SLICE_SECONDS", 3600.0)


async def test_everything_arrives_once_and_in_order() -> None:
    source = Source()
    with anyio.fail_after(10):
        found = [batch async for batch in Batches(source.run(1000))]
    assert [item for batch in found for item in batch] == list(range(1000))
    assert all(0 < len(batch) <= SLICE_ITEMS for batch in found)
    assert source.closed.is_set()
    assert threading.get_ident() not in source.threads


async def test_nothing_at_all_is_the_end() -> None:
    source = Source()
    with anyio.fail_after(10):
        assert [batch async for batch in Batches(source.run(0))] == []
        assert [batch async for batch in Batches(source.run(0, pulse=True))] == []


@pytest.mark.usefixtures("endless_slices")
async def test_the_first_item_comes_at_once_and_later_ones_in_full_batches() -> None:
    source = Source()
    found = Batches(source.run(200))
    with anyio.fail_after(10):
        assert [len(batch) async for batch in found] == [1, 64, 64, 64, 7]


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a 64th of a second whenever it is looked at: a slice is over after four looks."""
    ticks = count()
    monkeypatch.setattr(batches_module, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 64))


@pytest.mark.usefixtures("ticking")
async def test_a_later_batch_does_not_wait_to_be_full() -> None:
    with anyio.fail_after(10):
        assert [len(batch) async for batch in Batches(Source().run(15))] == [1, 4, 4, 4, 2]


@pytest.mark.usefixtures("ticking")
async def test_a_slice_without_items_ends_too_so_that_the_event_loop_has_its_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slices = 0
    run_slice = Batches[int]._work

    def counted(self: Batches[int]) -> None:
        nonlocal slices
        slices += 1
        run_slice(self)

    monkeypatch.setattr(Batches, "_work", counted)
    with anyio.fail_after(10):
        assert [batch async for batch in Batches(Source().run(50, pulse=True))] == []
    assert slices == 13


async def test_none_goes_to_nobody() -> None:
    def source() -> Generator[str | None]:
        yield None
        yield "a"
        yield None
        yield "b"
        yield None

    with anyio.fail_after(10):
        assert [item async for batch in Batches(source()) for item in batch] == ["a", "b"]


@pytest.mark.usefixtures("endless_slices")
async def test_a_slow_consumer_holds_the_generator_back() -> None:
    source = Source()
    found = Batches(source.run())
    taken = 0
    with anyio.fail_after(10):
        for _ in range(5):
            taken += len(await found.__anext__())
            await anyio.lowlevel.checkpoint()
            assert source.generated == taken
    found.close()


async def test_an_error_comes_after_what_was_generated_before_it() -> None:
    def source() -> Generator[int]:
        yield from range(3)
        raise LookupError("broken")

    found = Batches(source())
    seen: list[int] = []

    async def consume() -> None:
        async for batch in found:
            seen.extend(batch)

    with anyio.fail_after(10):
        with pytest.raises(LookupError, match="broken"):
            await consume()
        assert seen == [0, 1, 2]
        assert [batch async for batch in found] == []


# Stopped


@pytest.mark.usefixtures("endless_slices")
async def test_a_cancel_stops_a_thread_that_finds_nothing_and_leaves_the_generator_closed() -> None:
    source = Source()
    found = Batches(source.run(pulse=True))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:

            async def consume() -> None:
                async for _ in found:
                    pytest.fail("there is nothing")

            group.start_soon(consume)
            while not source.generated:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert source.closed.is_set()
        assert [batch async for batch in found] == []
    generated = source.generated
    await anyio.lowlevel.checkpoint()
    assert source.generated == generated


@pytest.mark.usefixtures("endless_slices")
async def test_a_cancel_waits_for_the_thread_so_that_nothing_runs_behind_its_back() -> None:
    entered, leave = threading.Event(), threading.Event()
    left = False

    def source() -> Generator[None]:
        nonlocal left
        yield
        entered.set()
        leave.wait(10)
        left = True
        yield

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:

            async def consume() -> None:
                try:
                    await Batches(source()).__anext__()
                finally:
                    assert left

            group.start_soon(consume)
            while not entered.is_set():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
            for _ in range(5):
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
            leave.set()


@pytest.mark.usefixtures("endless_slices")
async def test_what_was_found_in_the_cut_slice_is_not_lost() -> None:
    enough = threading.Event()

    def source() -> Generator[int | None]:
        yield 0
        yield 1
        yield 2
        enough.set()
        while True:
            yield None

    found = Batches(source())
    with anyio.fail_after(10):
        assert await found.__anext__() == [0]
        async with anyio.create_task_group() as group:
            group.start_soon(found.__anext__)
            while not enough.is_set():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert found.pending == [1, 2]


async def test_a_cancel_before_the_first_wait_runs_nothing() -> None:
    source = Source()
    with anyio.CancelScope() as scope:
        scope.cancel()
        async for _ in Batches(source.run()):
            pytest.fail("cancelled")
    assert scope.cancelled_caught
    assert source.generated == 0


async def test_a_consumer_that_leaves_closes_the_generator() -> None:
    source = Source()
    found = Batches(source.run())
    with anyio.fail_after(10):
        async for _ in found:
            break
    assert not source.closed.is_set()
    found.close()
    found.close()
    assert source.closed.is_set()
    with anyio.fail_after(10):
        assert [batch async for batch in found] == []


@pytest.mark.usefixtures("endless_slices")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("at_work", [True, False])
async def test_a_native_cancellation_of_asyncio_stops_the_thread_too(anyio_backend: str, at_work: bool) -> None:
    entered, leave, closed = threading.Event(), threading.Event(), threading.Event()

    def source() -> Generator[int | None]:
        try:
            entered.set()
            if at_work:
                leave.wait(10)
            while True:
                yield None
        finally:
            closed.set()

    task = asyncio.ensure_future(Batches(source()).__anext__())
    with anyio.fail_after(10):
        while not entered.is_set():
            await anyio.lowlevel.checkpoint()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not (at_work and closed.is_set())
        leave.set()
        assert await anyio.to_thread.run_sync(closed.wait, 5)


# The real thing


async def test_a_search_over_a_large_tree_is_cut_in_the_middle_with_its_hits_and_its_counts(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n // 100:02}/{n % 100:02}.txt": "hay\nneedle\n" for n in range(2000)})
    search = Search(Roots(tmp_path), "needle")
    seen = 0
    found = Batches(search.run())
    with anyio.fail_after(20), anyio.CancelScope() as scope:
        async for batch in found:
            seen += len(batch)
            if seen > 300:
                scope.cancel()
    assert 300 < seen < 1000
    assert search.hits == seen + len(found.pending)
    assert not search.complete
    assert search.files == search.hits or search.files == search.hits - 1


async def test_several_searches_at_once_do_not_mix(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n}": f"needle{n}\n" for n in range(50)})
    results: dict[int, list[str]] = {}

    async def search(n: int) -> None:
        found = Batches(Search(Roots(tmp_path), f"needle{n}$").run())
        results[n] = [hit.text async for batch in found for hit in batch]

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for n in range(10):
                group.start_soon(search, n)
    assert results == {n: [f"needle{n}"] for n in range(10)}
