"""Output that comes faster than it can be shown: a bounded amount waits, and of more the last is shown."""

import threading

import anyio
import pytest

from acp_server import Agent, Limits, ToolContext
from acp_server.schema import Content, Diff, ImageContent, TextContent
from acp_server.tools.view import UnshownPieces, size_of
from tests.session.editor import END_TURN, editing
from tests.tools.calls import calling, shown, text


def test_pieces_come_out_in_order_and_the_loop_is_told_once() -> None:
    backlog = UnshownPieces(10_000)
    assert [backlog.add(piece) for piece in ("a", "b", "c")] == [True, False, False]
    assert backlog.take() == (["a", "b", "c"], False, False)
    assert backlog.take() == ([], False, False)
    assert backlog.add("d")


def test_of_too_much_the_last_pieces_wait() -> None:
    backlog = UnshownPieces(10_000)
    for number in range(100_000):
        backlog.add(f"{number}")
    assert backlog._size <= 10_000
    pieces, lost, _ = backlog.take()
    assert lost
    assert 30 < len(pieces) < 50
    assert pieces == [f"{number}" for number in range(100_000 - len(pieces), 100_000)]
    backlog.add("next")
    assert backlog.take() == (["next"], False, False)


def test_the_last_piece_waits_however_large_it_is() -> None:
    backlog = UnshownPieces(100)
    for letter in "ab":
        backlog.add(letter * 1000)
    assert backlog.take() == (["b" * 1000], True, False)


def test_much_comes_out_in_portions_and_the_loop_is_told_of_the_first_one_alone() -> None:
    backlog = UnshownPieces(10_000)
    assert [backlog.add(letter * 800) for letter in "abc"] == [True, False, False]
    assert backlog.take(1500) == (["a" * 800, "b" * 800], False, True)
    assert not backlog.add("d")
    assert backlog.take(1500) == (["c" * 800, "d"], False, False)
    assert backlog.add("e")


@pytest.mark.parametrize(
    "piece",
    [
        "x" * 1000,
        Content(content=TextContent(text="x" * 1000)),
        Content(content=ImageContent(data="x" * 1000, mime_type="image/png")),
        Diff(path="/p", old_text="x" * 600, new_text="x" * 400),
    ],
)
def test_a_piece_counts_with_all_that_it_holds(piece: object) -> None:
    assert 1000 <= size_of(piece) < 1500  # pyright: ignore[reportArgumentType]


SMALL = Limits(drain=0.05, output=1000, content=5000, locations=10)


@pytest.mark.anyio
@pytest.mark.parametrize("plain", [False, True])
async def test_a_call_that_says_much_before_the_loop_can_look_shows_the_end_of_it(plain: bool) -> None:
    agent = Agent("loud")

    def say(call: ToolContext) -> None:
        for number in range(1000):
            call.progress(f"{number},")

    if plain:

        @agent.tool(name="loud")
        def in_thread(call: ToolContext) -> None:
            # The loop stands still meanwhile.
            call.run(say, call)

    else:

        @agent.tool(name="loud")
        async def in_loop(call: ToolContext) -> None:
            say(call)

    calling(agent, "loud")
    async with editing(agent, SMALL) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        (last,) = text(shown(editor)[-1])
    assert last.endswith("998,999,")
    assert len(last) < 2 * SMALL.output + 100


@pytest.mark.anyio
async def test_a_thread_that_says_more_than_may_wait_leaves_out_what_came_first() -> None:
    agent = Agent("loud")

    @agent.tool(name="loud")
    def tool(call: ToolContext) -> None:
        async def all_at_once() -> None:
            # The loop cannot take any of it before all of it is said.
            thread = threading.Thread(target=lambda: [call.progress(f"{number},") for number in range(1000)])
            thread.start()
            thread.join()

        call.run(all_at_once)

    calling(agent, "loud")
    async with editing(agent, SMALL) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        (last,) = text(shown(editor)[-1])
    assert last.startswith("\n[some output is left out]\n")
    assert last.endswith("998,999,")


@pytest.mark.anyio
async def test_other_tasks_run_while_what_a_thread_has_said_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_server.tools.context._AT_ONCE", 1000)
    agent = Agent("loud")
    waits: list[int] = []

    @agent.tool(name="loud")
    def tool(call: ToolContext) -> None:
        async def all_at_once() -> None:
            thread = threading.Thread(target=lambda: [call.progress(f"{number},".rjust(800)) for number in range(100)])
            thread.start()
            thread.join()
            while call._call.backlog._size:
                waits.append(call._call.backlog._size)
                await anyio.lowlevel.checkpoint()

        call.run(all_at_once)

    calling(agent, "loud")
    async with editing(agent, Limits(drain=0.05, output=1_000_000)) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        (last,) = text(shown(editor)[-1])
    assert last.replace(" ", "") == "".join(f"{number}," for number in range(100))
    # One for every two pieces; trio may run two in one round.
    assert len(set(waits)) >= 25


@pytest.mark.anyio
async def test_of_too_much_content_and_too_many_places_the_last_are_shown() -> None:
    agent = Agent("changing")

    @agent.tool(name="change")
    async def tool(call: ToolContext) -> None:
        for number in range(100):
            call.progress(Diff(path=f"/{number}", old_text="a" * 400, new_text="b" * 400))
            call.locate(f"/{number}")
            await anyio.lowlevel.checkpoint()
        assert [place.path for place in call.locations] == [f"/{number}" for number in range(90, 100)]

    calling(agent, "change")
    async with editing(agent, SMALL) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        last = shown(editor)[-1]
        assert [piece["path"] for piece in last["content"]] == [f"/{number}" for number in range(95, 100)]


@pytest.mark.anyio
async def test_a_result_is_shown_whole_also_if_it_is_larger_than_what_may_be_said_in_passing() -> None:
    agent = Agent("large")

    @agent.tool(name="large")
    async def tool(call: ToolContext) -> list[Diff]:
        call.progress(Diff(path="/before", new_text="x"))
        return [Diff(path=f"/{number}", new_text="x" * 4000) for number in range(3)]

    calling(agent, "large")
    async with editing(agent, SMALL) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert [piece["path"] for piece in shown(editor)[-1]["content"]] == ["/0", "/1", "/2"]
