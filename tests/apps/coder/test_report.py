"""What a client is shown of a search: as it comes, safe to render, and kept when it is cancelled."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from acp_server import Limits
from acp_server.apps.coder import batches as batches_module
from acp_server.apps.coder import search as search_module
from acp_server.peer.writer import HIGH_WATER
from tests.session.editor import CANCELLED, END_TURN

from .talk import Held, Stuck, Talk, nothing_worth_a_warning, project, talking
from .trees import plant

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.anyio
BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request"])


async def cancel(talk: Talk, by: str, session: str, id: int) -> None:
    await (talk.cancel(session) if by == "session" else talk.withdraw(id))


# Search


async def test_hits_are_shown_while_the_search_goes_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(after=1)
    monkeypatch.setattr(search_module, "files_below", held.files_below)
    async with talking() as talk:
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/search needle")
        first = await talk.client.expect(lambda m: "needle" in str(m) and "agent_message_chunk" in str(m))
        assert first["params"]["update"]["content"]["text"] == "README.md:2:1: needle\n~~~~\n"
        located = await talk.client.expect(lambda m: "locations" in str(m))
        assert located["params"]["update"]["locations"] == [{"path": str(project / "README.md"), "line": 2}]
        held.go_on.set()
        told = await talk.told(session, id)
        assert told.answer == END_TURN
        assert told.hits == ["README.md:2:1: needle", "src/app.py:1:9: # TODO: needle"]
        assert told.text.endswith("~~~~\n2 hits in 2 files.\n")
        assert told.output == {"hits": 2, "files": 2, "partial": False}
        assert (told.call["status"], told.call["kind"], told.call["title"]) == (
            "completed",
            "search",
            "Search for `needle`",
        )


async def test_a_search_without_hits_says_so(project: Path) -> None:
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/search absent")
        assert told.text == "0 hits in 2 files.\n"
        assert "locations" not in told.call


async def test_ignored_and_binary_files_are_not_searched(project: Path) -> None:
    plant(project, {".gitignore": "*.log\n", "a.log": "needle", "b.bin": b"needle\0", ".git/config": "needle"})
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/search needle")
        assert told.hits == ["README.md:2:1: needle", "src/app.py:1:9: # TODO: needle"]


async def test_the_first_hundred_places_are_attached_and_all_hits_are_shown(project: Path) -> None:
    plant(project, {"many.txt": "needle\n" * 250})
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/search needle many.txt")
        assert len(told.hits) == 250
        assert told.call["locations"] == [
            {"path": str(project / "many.txt"), "line": number} for number in range(1, 101)
        ]


async def test_no_text_and_no_name_of_a_file_can_leave_the_block_it_is_shown_in(project: Path) -> None:
    plant(project, {"tildes": "~~~~ needle\n~~~~\n", "esc": "\x1b[2Jneedle\rneedle\x00"[:-1], "~~~~": "needle\n"})
    plant(project, {"a\n~~~~\nb": "needle\n", "`code`": "needle\n"})
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/search needle|^~")
        assert len(told.hits) == 9
        assert told.text.splitlines()[-2:] == ["~~~~", "9 hits in 7 files."]
        assert "\x1b" not in told.text
        assert r"a\n~~~~\nb:1:1: needle" in told.hits


async def test_a_file_whose_name_is_no_unicode_is_found_and_shown(project: Path) -> None:
    try:
        plant(project, {"\udcff.txt": "needle\n"})
    except OSError:
        pytest.skip("this file system takes only names in UTF-8")
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/search needle")
        assert r"\udcff.txt:1:1: needle" in told.hits
        assert len(told.call["locations"]) == 3


async def test_a_pattern_that_is_too_slow_gives_partial_results_that_say_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "TIME_LIMIT", 0.01)
    plant(project, {"a": "1," * 20 + "P", **{f"b{n:02}": ("1," * 40 + "\n") * 3 for n in range(20)}})
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/search (?:.*?,){20}P")
        assert told.answer == END_TURN
        assert told.call["status"] == "completed"
        assert told.output["partial"] is True
        assert len(told.hits) == told.output["hits"] == 1
        assert "Partial results: 1 hit, and " in told.text
        assert "before the pattern turned out to be too slow.\n20 places could not be searched.\n" in told.text


@BOTH_CANCELS
@pytest.mark.behaviour("F1", "F5")
async def test_a_cancelled_search_keeps_what_it_found_and_says_last_that_it_is_not_all(
    project: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    held = Held(after=1)
    async with talking() as talk:
        session = await talk.open(str(project))
        with monkeypatch.context() as patch:
            patch.setattr(search_module, "files_below", held.files_below)
            id = await talk.prompt(session, "/search needle")
            await talk.client.expect(lambda m: "locations" in str(m))
            assert await anyio.to_thread.run_sync(held.reached.wait, 10)
            await cancel(talk, by, session, id)
            told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert told.text == (
            "~~~~\nREADME.md:2:1: needle\n~~~~\n"
            "Partial results: 1 hit, and 1 file searched to the end, before it was stopped.\n"
        )
        assert told.call["status"] == "failed"
        assert told.output == {"hits": 1, "files": 1, "partial": True}
        assert told.call["locations"] == [{"path": str(project / "README.md"), "line": 2}]
        after = await talk.tell(session, "/search needle")
        assert after.answer == END_TURN
        assert after.output["hits"] == 2


async def test_hits_that_were_found_and_not_yet_shown_when_the_cancel_came_are_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(project, {"src/app.py": "needle\nneedle\n", "zzz": "needle\n"})
    monkeypatch.setattr(batches_module, "SLICE_SECONDS", 3600.0)
    stuck = Stuck(search_module.blocks, 3)
    monkeypatch.setattr(search_module, "blocks", stuck)
    async with talking() as talk:
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/search needle")
        await stuck.reached()
        await talk.until(lambda: "".join(talk.said(session)).count("~~~~") == 2)
        await talk.cancel(session)
        await talk.settled()
        stuck.go_on()
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert told.output["hits"] == len(told.hits) >= 3


@BOTH_CANCELS
async def test_a_search_that_was_cancelled_before_it_found_anything_says_that_it_is_not_all(
    project: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(search_module, "files_below", Held(after=1).files_below)
    async with talking() as talk:
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/search TODO")
        await talk.client.expect(lambda m: "in_progress" in str(m))
        await cancel(talk, by, session, id)
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert told.text.startswith("Partial results: 0 hits, and ")


async def test_when_a_thread_outlasts_the_cancel_the_answer_comes_without_it_and_nothing_behind(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = Stuck(search_module.blocks, 2)
    monkeypatch.setattr(search_module, "blocks", stuck)
    async with talking(Limits(grace=0.5, drain=0.5)) as talk:
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/search needle")
        await stuck.reached()
        await talk.cancel(session)
        assert await talk.answer(id) == CANCELLED
        said = len(talk.client.updates(session))
        stuck.go_on()
        await talk.until(lambda: talk.connection.tree.size == 0)
        await talk.settled()
        assert len(talk.client.updates(session)) == said
        assert (await talk.tell(session, "/search needle")).output["hits"] == 2
    warnings = {warning.getMessage() for warning in caplog.records}
    tool = "tool call search does not end although it was cancelled; the runtime no longer waits for it"
    # Both are out of time at once. On a busy machine the prompt may end by itself by then, for its call is over.
    turn = "the handler of session/prompt does not end although it was cancelled; the response was sent without it"
    assert warnings - {turn} == {tool}
    assert not any(warning.exc_info for warning in caplog.records)
    caplog.clear()


# A client that does not read


@asynccontextmanager
async def crowded(talk: Talk, session: str) -> AsyncGenerator[int]:
    """A search that waits, because the client has stopped reading: the id of its prompt."""
    talk.stream.stall_sending()
    id = await talk.prompt(session, "/search needle")
    await talk.until(lambda: talk.connection.writer.size > HIGH_WATER)
    yield id
    talk.stream.release()


@pytest.fixture
def large(project: Path) -> Path:
    plant(project, {f"large/{n:04}.txt": ("needle " * 25 + "\n") * 50 for n in range(200)})
    return project


async def test_a_search_waits_for_a_client_that_does_not_read_and_loses_nothing(large: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(large))
        async with crowded(talk, session) as id:
            size = talk.connection.writer.size
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            assert talk.connection.writer.size == size < 2 * HIGH_WATER
        told = await talk.told(session, id)
        assert told.answer == END_TURN
        assert len(told.hits) == told.output["hits"] == 200 * 50 + 2


@BOTH_CANCELS
@pytest.mark.behaviour("K7")
async def test_a_search_that_waits_for_its_client_can_be_cancelled_and_its_last_words_wait_for_nobody(
    large: Path, by: str
) -> None:
    # Whoever waited for a client that is behind would come too late.
    async with talking(Limits(grace=0.9, drain=0.05)) as talk:
        session, other = await talk.open(str(large)), await talk.open(str(large))
        await talk.tell(other, "/help")  # which gives it its title
        async with crowded(talk, session) as id:
            await cancel(talk, by, session, id)
            await talk.until(lambda: talk.connection.tree.size == 0)
            # So does a command that waits right at its beginning.
            size = talk.connection.writer.size
            second = await talk.prompt(other, "/read README.md")
            await talk.until(lambda: talk.connection.writer.size > size)
            await cancel(talk, by, other, second)
            await talk.until(lambda: talk.connection.tree.size == 0)
            assert talk.connection.writer.size < 2 * HIGH_WATER
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert 0 < len(told.hits) == told.output["hits"] < 200 * 50
        assert told.text.splitlines()[-1].startswith("Partial results: ")
        assert told.call["status"] == "failed"
        told = await talk.told(other, second)
        assert told.answer == CANCELLED
        assert told.call["status"] == "failed"
