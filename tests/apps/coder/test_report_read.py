"""What a client is shown of a file: in a block that its text cannot end, within bounds, or a sentence why not."""

from pathlib import Path

import pytest

from acp_server.apps.coder import read as read_module
from acp_server.peer.writer import HIGH_WATER
from tests.session.editor import CANCELLED, END_TURN

from .talk import Stuck, Talk, nothing_worth_a_warning, project, talking
from .trees import plant

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.anyio
BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request"])


async def cancel(talk: Talk, by: str, session: str, id: int) -> None:
    await (talk.cancel(session) if by == "session" else talk.withdraw(id))


async def test_a_file_is_shown_in_a_block_that_its_text_cannot_end(project: Path) -> None:
    plant(project, {"odd.md": "~~~~\n# not a heading\n~~~~~~\n\x1b[31m\r\n"})
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/read odd.md")
        assert told.text == "~~~~~~~\n~~~~\n# not a heading\n~~~~~~\n\ufffd[31m\n~~~~~~~\n"
        assert told.call["locations"] == [{"path": str(project / "odd.md"), "line": 1}]
        assert told.call["status"] == "completed"
        assert told.output == {"first": 1, "last": 4}


async def test_lines_are_shown_as_they_were_asked_for_and_what_is_left_out_is_said(project: Path) -> None:
    plant(project, {"long": "".join(f"{n}\n" for n in range(1, 5001))})
    async with talking() as talk:
        session = await talk.open(str(project))
        told = await talk.tell(session, "/read long:10-12")
        assert told.text == "~~~~\n10\n11\n12\n~~~~\n"
        assert told.call["locations"] == [{"path": str(project / "long"), "line": 10}]
        told = await talk.tell(session, "/read long")
        assert told.text.splitlines()[-1].startswith("From line 2001 on nothing is shown")


@pytest.mark.parametrize("name", ["missing", "src", "b.bin", "README.md:7"])
async def test_a_file_that_cannot_be_shown_is_refused_and_its_call_fails(project: Path, name: str) -> None:
    plant(project, {"b.bin": b"\0"})
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), f"/read {name}")
        assert told.answer == END_TURN
        assert told.call["status"] == "failed"
        assert len(told.text.splitlines()) == 1
        assert str(project) not in told.text


@BOTH_CANCELS
async def test_a_cancel_in_the_middle_of_a_huge_file_ends_the_reading(
    project: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    plant(project, {"huge": "line\n" * 500_000})
    stuck = Stuck(read_module.blocks, 1)
    async with talking() as talk:
        session = await talk.open(str(project))
        with monkeypatch.context() as patch:
            patch.setattr(read_module, "blocks", stuck)
            id = await talk.prompt(session, "/read huge:499999")
            await stuck.reached()
            await cancel(talk, by, session, id)
            await talk.settled()
            stuck.go_on()
            told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert told.call["status"] == "failed"
        assert told.text == "It was stopped before there was anything to show.\n"
        assert (await talk.tell(session, "/read huge:499999")).text == "~~~~\nline\n~~~~\n"


async def test_a_file_that_was_shown_stays_complete_if_the_cancel_comes_while_the_client_catches_up(
    project: Path,
) -> None:
    plant(project, {"large": ("x" * 99 + "\n") * 1000})
    async with talking() as talk:
        session = await talk.open(str(project))
        talk.stream.stall_sending()
        id = await talk.prompt(session, "/read large")
        await talk.until(lambda: talk.connection.writer.size > HIGH_WATER)
        await talk.cancel(session)
        await talk.until(lambda: talk.connection.tree.size == 0)
        talk.stream.release()
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert told.text == "~~~~\n" + ("x" * 99 + "\n") * 1000 + "~~~~\n"
        assert told.output == {"first": 1, "last": 1000}
