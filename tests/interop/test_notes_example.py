"""The example of release notes, driven by the official Python client as a process of its own."""

import subprocess
from pathlib import Path

import pytest

from .editor import Editor, attached, text_block
from .subjects import workspace

pytestmark = pytest.mark.anyio
NOTES = Path(__file__).parents[2] / "examples" / "notes.py"


@pytest.fixture
def anyio_backend() -> str:
    """The SDK's client runs on asyncio alone."""
    return "asyncio"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for command in ("init -q", "commit -q --allow-empty -m First", "commit -q --allow-empty -m Second"):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command.split()], cwd=tmp_path, check=True)
    (tmp_path / "NOTES.md").write_text("old\n")
    return tmp_path


@pytest.mark.parametrize(
    ("permission", "written", "questions"),
    [("allow_once", "## Notes\n\n- Second\n- First\n\nold\n", 2), ("reject_once", "old\n", 1)],
)
async def test_notes_are_written_with_approval_alone(
    repository: Path, permission: str, written: str, questions: int
) -> None:
    editor = Editor(permission=permission)
    command = workspace("serve", "--store", "memory", str(NOTES))
    async with attached(editor, command) as connection:
        session = await connection.new_session(cwd=str(repository), mcp_servers=[])
        assert session.modes is not None
        assert session.modes.current_mode_id == "write"
        answer = await connection.prompt(session_id=session.session_id, prompt=[text_block("/notes HEAD")])
        assert answer.stop_reason == "end_turn"
    assert (repository / "NOTES.md").read_text() == written
    assert len(editor.questions) == questions
    kinds = {update.session_update for update in editor.updates[session.session_id]}
    assert {"available_commands_update", "plan", "tool_call", "tool_call_update"} <= kinds
