"""A real edit by the built-in agent, approved, rejected and cancelled by clients on the official SDKs.

The file is changed as it was shown, or not at all.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from .editor import ENDS_HANDLERS, Editor, attached
from .subjects import workspace as served
from .test_official_python_client import ask, opened
from .typescript import Turn, drive

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
WHERE = pytest.mark.parametrize("files", [True, False], ids=["through the client", "on disk"])
NOT_APPROVED = pytest.mark.parametrize(
    ("permission", "files", "backend"),
    [
        ("reject_once", True, "asyncio"),
        ("reject_once", False, "trio"),
        ("cancelled", False, "asyncio"),
        ("error", True, "trio"),
    ],
    ids=["rejected through the client", "rejected on disk", "dismissed", "failed"],
)

EDIT = "/edit notes.txt second => 2nd"
BEFORE, AFTER = "first line\nsecond line\n", "first line\n2nd line\n"
CHANGED = "`notes.txt` is changed.\n"


def workspace(backend: str) -> tuple[str, ...]:
    return served("--backend", backend)


def assert_only(project: Path, text: str) -> None:
    """The file holds this, and nothing else has been left in its folder."""
    assert (project / "notes.txt").read_text() == text
    assert sorted(os.listdir(project)) == ["notes.txt", "src"]


def may_hold(editor: Editor, session: str, old: str, new: str) -> set[str]:
    """What may be in a file, by what was last said of the edit of it."""
    last = [update for update in editor.updates[session] if update.session_update == "tool_call_update"][-1]
    if last.status == "completed":
        return {new}
    return {
        "`notes.txt` was not changed.": {old},
        "`notes.txt` was changed before that.": {new},
        "The editor was asked to change `notes.txt`, and may have done so.": {old, new},
    }[last.content[-1].content.text]


@pytest.fixture
def anyio_backend() -> str:
    """The SDK's client runs on asyncio alone; our agents run on both."""
    return "asyncio"


@pytest.mark.anyio
class TestPython:
    """The client on the official Python SDK."""

    @BACKENDS
    @WHERE
    async def test_an_edit_that_is_approved_is_made_as_it_was_shown(
        self, backend: str, files: bool, project: Path
    ) -> None:
        editor = Editor(files=files)
        async with attached(editor, workspace(backend)) as connection:
            session = await opened(connection, project)
            answer = await ask(connection, session, EDIT)
            assert (answer.stop_reason, editor.said[session]) == ("end_turn", CHANGED)
        (question,) = editor.questions
        diff = question.content[0]
        assert (diff.path, diff.old_text, diff.new_text) == (str(project / "notes.txt"), BEFORE, AFTER)
        assert_only(project, AFTER)

    @NOT_APPROVED
    async def test_an_edit_that_is_not_approved_is_not_made(
        self, backend: str, permission: str, files: bool, project: Path
    ) -> None:
        editor = Editor(permission=permission, files=files)
        async with attached(editor, workspace(backend)) as connection:
            session = await opened(connection, project)
            answer = await ask(connection, session, EDIT)
            assert answer.stop_reason == "end_turn"
            assert "so it was not run." in editor.said[session]
        assert_only(project, BEFORE)

    @pytest.mark.parametrize(
        ("backend", "files", "by"),
        [("asyncio", True, "turn"), ("trio", False, "turn"), ("trio", True, "tool"), ("asyncio", False, "tool")],
    )
    async def test_a_yes_that_comes_after_the_cancel_changes_nothing(
        self, backend: str, files: bool, by: str, project: Path
    ) -> None:
        editor = Editor(files=files)
        held = editor.hold("session/request_permission")
        async with attached(editor, workspace(backend)) as connection:
            session = await opened(connection, project)
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(ask(connection, session, EDIT))
                await editor.reached("session/request_permission")
                if by == "turn":
                    await connection.cancel(session_id=session)
                else:
                    call = editor.questions[0].tool_call_id
                    # The SDK puts the underscore of an extension in front itself.
                    await connection.ext_method("tool_call/cancel", {"sessionId": session, "toolCallId": call})
            assert turn.result().stop_reason == ("cancelled" if by == "turn" else "end_turn")
            held.set()
            last = [u for u in editor.updates[session] if u.session_update == "tool_call_update"][-1]
            assert last.status == "failed"
            answer = await ask(connection, session, "/read notes.txt")
            assert (answer.stop_reason, "second line" in editor.said[session]) == ("end_turn", True)
        assert_only(project, BEFORE)

    @BACKENDS
    @WHERE
    async def test_a_file_is_made_and_replaced_as_it_was_shown(self, backend: str, files: bool, project: Path) -> None:
        editor = Editor(files=files)
        async with attached(editor, workspace(backend)) as connection:
            session = await opened(connection, project)
            for text, old, said in [("one\n", None, "made"), ("two\n", "one\n", "changed")]:
                answer = await ask(connection, session, f"/write new/a.txt {text}")
                assert (answer.stop_reason, editor.said.pop(session)) == ("end_turn", f"`new/a.txt` is {said}.\n")
                diff = editor.questions[-1].content[0]
                assert (diff.path, diff.old_text, diff.new_text) == (str(project / "new" / "a.txt"), old, text)
                assert (project / "new" / "a.txt").read_text() == text
            editor.permission = "reject_once"
            await ask(connection, session, "/write new/a.txt three")
        assert (project / "new" / "a.txt").read_text() == "two\n"
        assert os.listdir(project / "new") == ["a.txt"]

    @BACKENDS
    @WHERE
    async def test_whenever_the_cancel_of_an_approved_edit_comes_the_file_is_the_old_one_or_the_new_one(
        self, backend: str, files: bool, project: Path
    ) -> None:
        editor = Editor(files=files)
        async with attached(editor, workspace(backend)) as connection:
            session = await opened(connection, project)
            for size in (1, 1_000, 10_000, 50_000, 100_000):
                rest = "line\n" * size
                old, new = "first\n" + rest, "1st\n" + rest
                (project / "notes.txt").write_text(old)
                editor.updates.clear()
                async with asyncio.TaskGroup() as group:
                    turn = group.create_task(ask(connection, session, "/edit notes.txt first => 1st"))
                    while not any(getattr(u, "status", None) == "in_progress" for u in editor.updates[session]):
                        await editor.reached("tool_call_update")
                    await connection.cancel(session_id=session)
                assert turn.result().stop_reason in ("cancelled", "end_turn")
                possible = may_hold(editor, session, old, new)
                # An editor that cannot be told to stop may still be writing what it was asked to write.
                await ask(connection, session, "/help")
                await editor.written()
                assert (project / "notes.txt").read_text() in possible
        assert_only(project, (project / "notes.txt").read_text())

    @BACKENDS
    async def test_a_cancel_while_the_editor_writes_says_that_it_may_have_written(
        self, backend: str, project: Path
    ) -> None:
        editor = Editor()
        held = editor.hold("fs/write_text_file")
        async with attached(editor, workspace(backend)) as connection:
            session = await opened(connection, project)
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(ask(connection, session, EDIT))
                await editor.reached("fs/write_text_file")
                await connection.cancel(session_id=session)
            assert turn.result().stop_reason == "cancelled"
            assert may_hold(editor, session, BEFORE, AFTER) == {BEFORE, AFTER}
            assert_only(project, BEFORE)
            held.set()
            await editor.written()
        assert_only(project, BEFORE if ENDS_HANDLERS else AFTER)

    @BACKENDS
    async def test_a_client_that_leaves_while_it_is_asked_leaves_the_file_as_it_is(
        self, backend: str, project: Path
    ) -> None:
        editor = Editor()
        editor.hold("session/request_permission")
        async with attached(editor, workspace(backend)) as connection:
            session = await opened(connection, project)
            turn = asyncio.create_task(ask(connection, session, EDIT))
            await editor.reached("session/request_permission")
            await editor.end_input()
            # The question has failed, and so the tool, but not the turn.
            assert (await turn).stop_reason == "end_turn"
            last = [u for u in editor.updates[session] if u.session_update == "tool_call_update"][-1]
            assert last.status == "failed"
        assert_only(project, BEFORE)

    @BACKENDS
    @pytest.mark.parametrize("terminals", [True, False], ids=["in a terminal", "here"])
    async def test_a_command_that_is_cancelled_alone_is_ended_and_the_turn_goes_on(
        self, backend: str, terminals: bool, project: Path
    ) -> None:
        editor = Editor(terminals=terminals)
        async with attached(editor, workspace(backend)) as connection:
            session = await opened(connection, project)
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(ask(connection, session, "/run printf 'beg%s' un; exec sleep 1000"))
                if terminals:
                    await editor.reached("terminal/wait_for_exit")
                else:
                    while "begun" not in str(editor.updates[session]):
                        await editor.reached("tool_call_update")
                call = editor.questions[0].tool_call_id
                await connection.ext_method("tool_call/cancel", {"sessionId": session, "toolCallId": call})
            assert turn.result().stop_reason == "end_turn"
            while "It was stopped." not in editor.said[session]:
                await editor.reached("agent_message_chunk")
        assert len(editor.released) == terminals


def typescript(project: Path, backend: str, turn: Turn, **options: Any) -> Any:
    return drive(workspace(backend), project, [turn, {"text": "/read notes.txt"}], **options)


@pytest.mark.usefixtures("require_npm")
class TestTypeScript:
    """The client on the official TypeScript SDK."""

    @pytest.mark.parametrize(("backend", "files"), [("asyncio", True), ("trio", False)])
    def test_an_edit_that_is_approved_is_made_as_it_was_shown(self, backend: str, files: bool, project: Path) -> None:
        run = typescript(project, backend, {"text": EDIT}, files=files)
        edit, read = run.turns()
        assert (edit.stop_reason, edit.said) == ("end_turn", CHANGED)
        assert "2nd line" in read.said
        (question,) = run.received("session/request_permission")
        diff = question["toolCall"]["content"][0]
        path = str(project / "notes.txt")
        assert diff == {"type": "diff", "path": path, "oldText": BEFORE, "newText": AFTER}
        assert_only(project, AFTER)

    @NOT_APPROVED
    def test_an_edit_that_is_not_approved_is_not_made(
        self, backend: str, permission: str, files: bool, project: Path
    ) -> None:
        run = typescript(project, backend, {"text": EDIT}, permission=permission, files=files)
        assert "so it was not run." in run.turns()[0].said
        assert_only(project, BEFORE)

    @pytest.mark.parametrize(
        ("by", "files", "backend"),
        [
            ("session/cancel", True, "trio"),
            ("session/cancel", False, "asyncio"),
            ("signal", True, "asyncio"),
            ("tool", False, "trio"),
        ],
    )
    def test_a_yes_that_comes_after_the_cancel_changes_nothing(
        self, backend: str, by: str, files: bool, project: Path
    ) -> None:
        turn: Turn = {"text": EDIT, "cancelOn": "session/request_permission", "cancelBy": by, "lateAnswer": True}
        run = typescript(project, backend, turn, files=files)
        edit, read = run.turns()
        assert edit.stop_reason == ("end_turn" if by == "tool" else "cancelled")
        assert run.withdrawn() == ["session/request_permission"]
        steps = [update["status"] for update in run.updates("tool_call_update") if update["status"] != "pending"]
        assert steps[0] == "failed"  # and never in progress
        assert "second line" in read.said
        assert_only(project, BEFORE)

    @WHERE
    def test_a_file_is_made_as_it_was_shown(self, files: bool, project: Path) -> None:
        run = drive(workspace("asyncio"), project, [{"text": "/write a.txt one"}], files=files)
        assert [end.said for end in run.turns()] == ["`a.txt` is made.\n"]
        (question,) = run.received("session/request_permission")
        shown = question["toolCall"]["content"][0]
        assert (shown.get("oldText"), shown["newText"]) == (None, "one\n")
        assert (project / "a.txt").read_text() == "one\n"
