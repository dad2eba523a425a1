"""/edit and /write: shown, asked for, and then done as shown, or not at all."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from acp_server.apps.coder import change
from acp_server.apps.coder.change import replace_text
from acp_server.paths import Place
from tests.session.editor import CANCELLED, END_TURN

from .client import FILES, PERMISSION, READ, WRITE, Buffers, asked, chosen
from .talk import Talk, nothing_worth_a_warning, project, talking
from .trees import plant

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.anyio
BOTH = pytest.mark.parametrize("capabilities", [{}, FILES], ids=["on disk", "through the client"])


class Project:
    """The project's texts where the agent has to look for them: on disk, or in the editor."""

    def __init__(self, talk: Talk, root: Path, capabilities: dict[str, Any]) -> None:
        self._root = root
        names = ["README.md", "src/app.py"]
        texts = {root / name: (root / name).read_text() for name in names}
        self._buffers = Buffers(talk, texts) if capabilities else None
        if self._buffers is not None:
            # What is on disk is older than what the editor has.
            for path in texts:
                path.write_text("old\n")

    def text(self, name: str) -> str:
        if self._buffers is not None:
            return self._buffers.texts[str(self._root / name)]
        return (self._root / name).read_bytes().decode()

    def put(self, name: str, text: str) -> None:
        if self._buffers is not None:
            self._buffers.texts[str(self._root / name)] = text
        else:
            (self._root / name).write_bytes(text.encode())


@BOTH
async def test_an_edit_is_shown_as_a_diff_and_made_when_it_is_allowed(
    project: Path, capabilities: dict[str, Any]
) -> None:
    async with talking(capabilities=capabilities) as talk:
        texts = Project(talk, project, capabilities)
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/edit README.md needle => pin")
        question = await asked(talk)
        call = question["params"]["toolCall"]
        assert (call["title"], call["kind"], call["status"]) == ("Edit `README.md`", "edit", "pending")
        assert call["content"][1]["content"]["text"] == "Change `README.md`?"
        path = str(project / "README.md")
        diff = {"type": "diff", "path": path, "oldText": "first\nneedle\n", "newText": "first\npin\n"}
        assert call["content"][:1] == [diff]
        assert call["locations"] == [{"path": path, "line": 2}]
        shown = [u for u in talk.client.updates(session) if u.get("toolCallId") == call["toolCallId"]][-1]
        assert (shown["content"], shown["locations"]) == (call["content"], call["locations"])
        options = [option["kind"] for option in question["params"]["options"]]
        assert options == ["allow_once", "allow_always", "reject_once", "reject_always"]
        assert texts.text("README.md") == "first\nneedle\n"
        await talk.client.respond(question, chosen("allow_once"))
        told = await talk.told(session, id)
        assert (told.answer, told.text) == (END_TURN, "`README.md` is changed.\n")
        assert texts.text("README.md") == "first\npin\n"
        assert told.call["status"] == "completed"
        # The message says what came of it, and clients that show both say it once.
        assert told.call["content"] == [diff]
        assert told.call["locations"] == [{"path": path, "line": 2}]


@BOTH
@pytest.mark.parametrize("answer", ["reject_once", "reject_always", "something else", None])
async def test_what_is_not_allowed_is_not_done(
    project: Path, capabilities: dict[str, Any], answer: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking(capabilities=capabilities) as talk:
        texts = Project(talk, project, capabilities)
        result = chosen(answer) if answer else {"outcome": {"outcome": "cancelled"}}
        talk.client.answer(PERMISSION, result)
        session = await talk.open(str(project))
        for command in ("/edit README.md needle => pin", "/write README.md gone"):
            told = await talk.tell(session, command)
            assert told.answer == END_TURN
            assert "so it was not run." in told.text
            assert told.call["status"] == "failed"
        assert texts.text("README.md") == "first\nneedle\n"
        assert not talk.client.all(WRITE)
    if answer == "something else":
        # Which the client is to blame for, in the log.
        assert "was not offered" in caplog.text
        caplog.clear()


@BOTH
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/edit README.md absent => x", "`README.md`: the block to replace is not in the file"),
        ("/edit README.md e => x", "`README.md`: the block to replace is in the lines 2"),
        ("/edit README.md needle => needle", "The edit changes nothing in `README.md`"),
        ("/edit src needle => x", "Not a file but a directory: `src`"),
        ("/edit ../outside.txt a => b", "Outside the session's directories: `../outside.txt`"),
        ("/write ../outside.txt b", "Outside the session's directories: `../outside.txt`"),
        ("/write src b", "Not a file but a directory: `src`"),
        ("/write new/ b", "Not a file but a directory: `new/`"),
        ('/write README.md "first\nneedle\n"', "The edit changes nothing in `README.md`"),
        ("/write README.md", "The text is missing. Usage: `/write PATH TEXT`"),
    ],
)
async def test_what_cannot_be_done_is_said_and_nobody_is_asked(
    project: Path, capabilities: dict[str, Any], command: str, message: str
) -> None:
    (project.parent / "outside.txt").write_text("a")
    async with talking(capabilities=capabilities) as talk:
        texts = Project(talk, project, capabilities)
        told = await talk.tell(await talk.open(str(project)), command)
        assert told.answer == END_TURN
        assert told.text.startswith(message)
        assert not told.call or told.call["status"] == "failed"
        assert not talk.asked(PERMISSION)
        assert not talk.asked(WRITE)
        assert texts.text("README.md") == "first\nneedle\n"


async def test_a_file_that_does_not_exist_cannot_be_edited(project: Path) -> None:
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/edit __new__.py a => b")
        assert told.text == "No such file: `__new__.py`\n"


@BOTH
async def test_a_file_that_changes_while_the_user_thinks_it_over_stays_as_it_is(
    project: Path, capabilities: dict[str, Any]
) -> None:
    async with talking(capabilities=capabilities) as talk:
        texts = Project(talk, project, capabilities)
        session = await talk.open(str(project))
        for command in ("/edit README.md needle => pin", "/write README.md all new"):
            id = await talk.prompt(session, command)
            question = await asked(talk)
            changed = texts.text("README.md") + "more\n"
            texts.put("README.md", changed)
            await talk.client.respond(question, chosen("allow_once"))
            told = await talk.told(session, id)
            assert told.text == "`README.md` was changed in the meantime, so it was not overwritten\n"
            assert told.call["status"] == "failed"
            assert texts.text("README.md") == changed
        assert not talk.asked(WRITE)


@BOTH
@pytest.mark.parametrize("by", ["session", "request", "tool"])
async def test_a_cancel_while_the_user_is_asked_withdraws_the_question_and_a_late_yes_changes_nothing(
    project: Path, capabilities: dict[str, Any], by: str
) -> None:
    async with talking(capabilities=capabilities) as talk:
        texts = Project(talk, project, capabilities)
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/edit README.md needle => pin")
        question = await asked(talk)
        if by == "tool":
            tool = question["params"]["toolCall"]["toolCallId"]
            await talk.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": tool})
        else:
            await (talk.cancel(session) if by == "session" else talk.withdraw(id))
        await talk.client.expect(lambda m: m.get("method") == "$/cancel_request")
        await talk.client.respond(question, chosen("allow_once"))
        told = await talk.told(session, id)
        assert told.answer == (END_TURN if by == "tool" else CANCELLED)
        assert told.call["status"] == "failed"
        assert talk.withdrawn() == [question["id"]]
        assert texts.text("README.md") == "first\nneedle\n"
        assert sorted(os.listdir(project)) == ["README.md", "src"]


@pytest.mark.parametrize(
    ("moment", "text", "said"),
    [
        ("before", "first\nneedle\n", "`README.md` was not changed."),
        ("after", "first\npin\n", "`README.md` was changed before that."),
    ],
)
async def test_a_cancel_before_a_file_is_replaced_prevents_it_and_the_last_words_say_which_it_was(
    project: Path, monkeypatch: pytest.MonkeyPatch, moment: str, text: str, said: str
) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def stuck(path: Place, old: str | None, new: str, commit: change.Commit) -> None:
        if moment == "after":
            replace_text(path, old, new, commit)
        reached.set()
        assert go_on.wait(10)
        if moment == "before":
            replace_text(path, old, new, commit)

    monkeypatch.setattr(change, "replace_text", stuck)
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_once"))
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/edit README.md needle => pin")
        assert await anyio.to_thread.run_sync(reached.wait, 10)
        await talk.cancel(session)
        await talk.client.expect(lambda m: "failed" in str(m))
        go_on.set()
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert told.call["content"][-1]["content"]["text"] == said
        assert (project / "README.md").read_text() == text
        assert sorted(os.listdir(project)) == ["README.md", "src"]


async def test_a_cancel_while_the_editor_writes_withdraws_that_and_says_that_it_may_be_done(project: Path) -> None:
    async with talking(capabilities=FILES) as talk:
        Project(talk, project, FILES)
        talk.client.leave_unanswered(WRITE)
        talk.client.answer(PERMISSION, chosen("allow_once"))
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/edit README.md needle => pin")
        writing = await asked(talk, WRITE)
        await talk.cancel(session)
        told = await talk.told(session, id)
        assert told.answer == CANCELLED
        assert talk.withdrawn() == [writing["id"]]
        said = told.call["content"][-1]["content"]["text"]
        assert said == "The editor was asked to change `README.md`, and may have done so."
        await talk.client.refuse(writing, -32800)


@pytest.mark.parametrize("method", [READ, WRITE])
# The second is the code of what was cancelled, which nothing was here.
@pytest.mark.parametrize("code", [-32603, -32800])
async def test_an_editor_that_refuses_is_quoted(project: Path, method: str, code: int) -> None:
    async with talking(capabilities=FILES) as talk:
        Project(talk, project, FILES)
        talk.client.leave_unanswered(method)
        talk.client.answer(PERMISSION, chosen("allow_once"))
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/edit README.md needle => pin")
        await talk.client.refuse(await asked(talk, method), code, "Locked by the user")
        told = await talk.told(session, id)
        assert told.answer == END_TURN
        verb = "read" if method == READ else "write"
        assert told.text == f"The editor refused to {verb} `README.md`: Locked by the user ({code})\n"
        assert told.call["status"] == "failed"


async def test_a_client_that_goes_away_while_the_user_is_asked_leaves_the_file_as_it_is(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        await talk.prompt(session, "/edit README.md needle => pin")
        await asked(talk)
        talk.stream.end_input()
        await talk.until(lambda: talk.connection.tree.size == 0)
    assert (project / "README.md").read_text() == "first\nneedle\n"


async def test_what_was_allowed_for_good_is_not_asked_again_and_a_fault_is_still_one(project: Path) -> None:
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_always"))
        session = await talk.open(str(project))
        assert (await talk.tell(session, "/edit README.md needle => pin")).text == "`README.md` is changed.\n"
        assert (await talk.tell(session, "/edit README.md pin => nail")).text == "`README.md` is changed.\n"
        assert "not in the file" in (await talk.tell(session, "/edit README.md pin => nail")).text
        assert len(talk.asked(PERMISSION)) == 1
        # Writing is another tool.
        await talk.tell(session, "/write new.txt text")
        assert len(talk.asked(PERMISSION)) == 2


async def test_a_user_who_has_said_so_is_not_asked_but_shown(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        setting = {"sessionId": session, "configId": "auto_approve", "type": "boolean", "value": True}
        await talk.client.result("session/set_config_option", setting)
        told = await talk.tell(session, "/edit README.md needle => pin")
        assert told.text == "`README.md` is changed.\n"
        assert told.call["content"][0]["type"] == "diff"
        assert "Change `README.md`?" not in str(told.call["content"])
        assert not talk.asked(PERMISSION)


async def test_lines_keep_their_breaks_and_the_file_its_mode(project: Path) -> None:
    plant(project, {"dos.txt": b"one\r\ntwo\r\nthree\r\n"})
    (project / "dos.txt").chmod(0o640)
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_once"))
        session = await talk.open(str(project))
        await talk.tell(session, '/edit dos.txt "one\ntwo" => "1\n2\n2b"')
        assert (project / "dos.txt").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"
        await talk.tell(session, "/write dos.txt\n  a\nb")
        assert (project / "dos.txt").read_bytes() == b"  a\r\nb\r\n"
        assert sys.platform == "win32" or (project / "dos.txt").stat().st_mode & 0o777 == 0o640


async def test_a_byte_order_mark_stays_and_is_nobodys_text(project: Path) -> None:
    plant(project, {"marked.txt": b"\xef\xbb\xbfone\n"})
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_once"))
        session = await talk.open(str(project))
        for content in ("two", "\ufeffthree"):
            await talk.tell(session, f"/write marked.txt {content}")
            assert (project / "marked.txt").read_text() == f"\ufeff{content.lstrip(chr(0xFEFF))}\n"


async def test_what_lies_below_a_file_is_not_asked_for(project: Path) -> None:
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/write README.md/new.txt text")
        assert told.text == "Not a directory: `README.md/new.txt`\n"
        assert not talk.asked(PERMISSION)


async def test_a_link_is_followed_inside_of_the_project_and_refused_out_of_it(project: Path) -> None:
    (project / "link").symlink_to("README.md")
    (project.parent / "outside.txt").write_text("needle\n")
    (project / "out").symlink_to(project.parent / "outside.txt")
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_once"))
        session = await talk.open(str(project))
        told = await talk.tell(session, "/edit link needle => pin")
        assert told.text == "`README.md` is changed.\n"
        assert (project / "link").is_symlink()
        assert (project / "README.md").read_text() == "first\npin\n"
        told = await talk.tell(session, "/edit out needle => pin")
        assert told.text == "Outside the session's directories: `out`\n"
        assert (project.parent / "outside.txt").read_text() == "needle\n"


async def test_a_file_is_written_with_its_folders_from_what_the_message_has(project: Path) -> None:
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_once"))
        session = await talk.open(str(project))
        told = await talk.tell(session, "/write a/b/new.txt\nline\n\tline")
        assert told.text == "`a/b/new.txt` is made.\n"
        assert (project / "a/b/new.txt").read_bytes() == b"line\n\tline\n"
        diff = talk.client.all(PERMISSION)[0]["params"]["toolCall"]["content"][0]
        assert (diff.get("oldText"), diff["newText"]) == (None, "line\n\tline\n")

        async def write(*blocks: dict[str, Any]) -> str:
            prompt = [{"type": "text", "text": "/write b.txt"}, *blocks]
            request = talk.client.new_request("session/prompt", {"sessionId": session, "prompt": prompt})
            await talk.client.send(request)
            return (await talk.told(session, request["id"])).text

        file = {"type": "resource", "resource": {"uri": "file:///x", "text": "attached"}}
        assert await write({"type": "text", "text": "next block"}) == "`b.txt` is made.\n"
        assert (project / "b.txt").read_bytes() == b"next block\n"
        assert await write(file) == "`b.txt` is changed.\n"
        assert (project / "b.txt").read_bytes() == b"attached"
        assert (await write(file, file)).startswith("There is more than one attached file.")


async def test_a_binary_file_is_not_written_over(project: Path) -> None:
    plant(project, {"b.bin": b"\0"})
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), "/write b.bin text")
        assert told.text == "The file is binary: `b.bin`\n"
        assert not talk.asked(PERMISSION)


# Reading


async def test_a_file_is_read_as_the_editor_has_it(project: Path) -> None:
    async with talking(capabilities={"fs": {"readTextFile": True}}) as talk:
        Buffers(talk, {project / "README.md": "\ufeffunsaved\r\nline\r\nlast"})
        session = await talk.open(str(project))
        assert (await talk.tell(session, "/read README.md")).text == "~~~~\nunsaved\nline\nlast\n~~~~\n"
        assert (await talk.tell(session, "/read README.md:2")).text == "~~~~\nline\n~~~~\n"
        told = await talk.tell(session, "/read README.md:4")
        assert told.text == "`README.md` has no line 4, because it has 3 lines\n"


async def test_what_the_editor_does_not_read_is_read_on_disk(project: Path) -> None:
    plant(project, {"b.bin": b"\0"})
    async with talking(capabilities={"fs": {"readTextFile": True}}) as talk:
        session = await talk.open(str(project))
        for name, said in [("README.md", "~~~~\nfirst\nneedle\n~~~~\n"), ("b.bin", "The file is binary: `b.bin`\n")]:
            id = await talk.prompt(session, f"/read {name}")
            await talk.client.refuse(await asked(talk, READ), -32603)
            assert (await talk.told(session, id)).text == said


async def test_a_cancel_while_the_editor_reads_withdraws_that(project: Path) -> None:
    async with talking(capabilities={"fs": {"readTextFile": True}}) as talk:
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/read README.md")
        reading = await asked(talk, READ)
        await talk.cancel(session)
        told = await talk.told(session, id)
        assert (told.answer, told.text) == (CANCELLED, "It was stopped before there was anything to show.\n")
        assert talk.withdrawn() == [reading["id"]]
        await talk.client.refuse(reading, -32800)


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["LF", "CR LF"])
async def test_an_editor_that_answers_without_the_last_newline_of_a_file_costs_no_newline_and_no_edit(
    project: Path, ending: str
) -> None:
    path = project / "README.md"
    text = f"first{ending}needle{ending}"
    path.write_bytes(text.encode())
    async with talking(capabilities=FILES) as talk:
        # With it while the file is not open, without it from then on.
        buffers = Buffers(talk, {path: text})
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/edit README.md needle => pin")
        question = await asked(talk)
        buffers.texts[str(path)] = text.removesuffix(ending)
        await talk.client.respond(question, chosen("allow_once"))
        assert (await talk.told(session, id)).text == "`README.md` is changed.\n"
        assert buffers.texts[str(path)] == f"first{ending}pin{ending}"


async def test_a_newline_that_only_the_disk_has_is_not_given_to_a_text_with_other_changes(project: Path) -> None:
    async with talking(capabilities=FILES) as talk:
        buffers = Buffers(talk, {project / "README.md": "second\nneedle"})
        talk.client.answer(PERMISSION, chosen("allow_once"))
        await talk.tell(await talk.open(str(project)), "/edit README.md needle => pin")
        assert buffers.texts[str(project / "README.md")] == "second\npin"
