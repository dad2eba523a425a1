"""What a client is shown of a scan: a plan, the numbers, and what there is of them when it is cancelled."""

from pathlib import Path

import anyio
import pytest

from acp_server.apps.coder import scan as scan_module
from tests.session.editor import CANCELLED, END_TURN

from .talk import Held, Stuck, Talk, nothing_worth_a_warning, project, talking
from .trees import plant

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.anyio
BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request"])


async def cancel(talk: Talk, by: str, session: str, id: int) -> None:
    await (talk.cancel(session) if by == "session" else talk.withdraw(id))


async def test_a_scan_shows_a_plan_and_then_the_numbers(project: Path) -> None:
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/scan")
        assert told.answer == END_TURN
        assert told.plans == [["in_progress", "pending"], ["completed", "in_progress"], ["completed", "completed"]]
        assert told.text == (
            "2 files, 28 bytes, 3 lines\n\n"
            "| language | files | lines |\n| --- | ---: | ---: |\n| Markdown | 1 | 2 |\n| Python | 1 | 1 |\n\n"
            "Largest files:\n\n- `src/app.py`: 15 bytes\n- `README.md`: 13 bytes\n\n"
            "To do (1):\n\n~~~~\nsrc/app.py:1: TODO: needle\n~~~~\n"
        )
        assert told.call["locations"] == [{"path": str(project / "src" / "app.py"), "line": 1}]
        assert told.output["languages"] == {
            "Markdown": {"files": 1, "lines": 2},
            "Python": {"files": 1, "lines": 1},
        }


async def test_no_name_of_a_file_can_leave_its_place_in_the_numbers(project: Path) -> None:
    plant(project, {"a`b``c": "x\n" * 50, "new\nline": "x\n" * 40})
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/scan")
        assert "- ``` a`b``c ```: 100 bytes\n- `new\\nline`: 80 bytes\n" in told.text


async def test_a_refused_scan_leaves_no_plan_behind(project: Path) -> None:
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/scan missing")
        assert told.text == "No such file or directory: `missing`\n"
        assert told.plans[-1] == []
        assert told.call["status"] == "failed"


@BOTH_CANCELS
async def test_a_scan_that_is_cancelled_while_it_finds_files_says_how_many_there_were(
    project: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    held = Held(after=1)
    async with talking() as talk:
        session = await talk.open(str(project))
        with monkeypatch.context() as patch:
            patch.setattr(scan_module, "files_below", held.files_below)
            id = await talk.prompt(session, "/scan")
            assert await anyio.to_thread.run_sync(held.reached.wait, 10)
            await cancel(talk, by, session, id)
            told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert told.text.startswith("Partial results: 0 of 1 or more files were read before it was stopped.\n")
        assert told.plans[-1] == ["pending", "pending"]
        assert told.call["status"] == "failed"
        assert told.output["partial"] is True
        assert (await talk.tell(session, "/scan")).output["files"] == 2


@BOTH_CANCELS
async def test_a_scan_that_is_cancelled_while_it_reads_shows_the_numbers_that_it_has(
    project: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    stuck = Stuck(scan_module.blocks, 2)
    monkeypatch.setattr(scan_module, "blocks", stuck)
    async with talking() as talk:
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/scan")
        await stuck.reached()
        await cancel(talk, by, session, id)
        await talk.settled()
        stuck.go_on()
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert told.text.startswith("Partial results: 1 of 2 files were read before it was stopped.\n")
        assert "| Markdown | 1 | 2 |" in told.text
        assert told.plans[-1] == ["completed", "pending"]
        assert told.call["status"] == "failed"
