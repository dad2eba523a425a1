"""An agent that writes release notes: it reads the git log with the user's approval, streams the notes, and writes them
to a file after the user has seen the change. `/notes v1..v2` takes other revisions; a plan shows the progress."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
from platformdirs import user_state_path

from acp_server import Agent, Approval, SqliteStore, ToolContext, ToolFailed, Turn
from acp_server.schema import Diff, SessionConfigSelect, SessionMode

agent = Agent("notes", version="1.0", title="Release notes")
agent.modes(
    SessionMode(id="write", name="Write", description="Put the notes into a file."),
    SessionMode(id="show", name="Show", description="Show the notes, and change nothing."),
)
agent.config_options(SessionConfigSelect.of("style", ["short", "full"]))


@agent.tool(kind="execute", title=lambda revisions: f"git log {revisions}", approval=True, auto_approve=True)
async def git_log(revisions: str, call: ToolContext) -> list[str]:
    "Read the subjects of the commits between two revisions, the newest first."
    command = ["git", "log", "--no-color", "--format=%s", "--max-count=200", "--end-of-options", revisions, "--"]
    done = await anyio.run_process(command, cwd=call.session.cwd, check=False)  # a cancel ends it
    if done.returncode:
        raise ToolFailed(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode(errors="replace").splitlines()


async def change(notes: str, call: ToolContext) -> Approval:
    """The question before the tool runs, with the change."""
    old = await call.editor.get_file_content("NOTES.md")
    call.data = Diff(path=call.editor.absolute("NOTES.md"), old_text=old, new_text=f"{notes}\n{old or ''}")
    return Approval("The notes go to the top of NOTES.md.", preview=call.data, primary="Write", secondary="Leave it")


@agent.tool(kind="edit", title="Write NOTES.md", approval=change, needs_editor=True)
async def write_notes(notes: str, call: ToolContext) -> str:
    "Put notes at the top of NOTES.md."
    if await call.editor.get_file_content("NOTES.md") != call.data.old_text:
        raise ToolFailed("NOTES.md was changed meanwhile, so I left it as it is.")
    await call.editor.write_to_file("NOTES.md", call.data.new_text)
    return "The notes are in NOTES.md."


@agent.command("notes", hint="[REVISIONS]")
async def notes(turn: Turn, revisions: str = "HEAD") -> AsyncGenerator[str]:
    "Write release notes of some revisions."
    steps = ["Read the git log", "Write the notes", "Change NOTES.md"]
    await turn.plan(steps if turn.session.mode == "write" else steps[:2])
    async with turn.step("Read the git log"):
        subjects = await turn.call(git_log, revisions=revisions)
    text = "## Notes\n\n"
    async with turn.step("Write the notes"):
        yield text
        for subject in subjects if turn.session.config("style") == "full" else subjects[:10]:
            yield (line := f"- {subject}\n")  # your model would write better ones
            text += line
    if turn.session.mode == "write":
        async with turn.step("Change NOTES.md"):
            yield f"\n{await turn.call(write_notes, notes=text)}\n"


@agent.prompt
async def answer(turn: Turn):
    async for piece in notes(turn, turn.text.strip() or "HEAD"):
        yield piece


def main() -> None:
    folder = user_state_path("release-notes", appauthor=False, ensure_exists=True)
    agent.store = SqliteStore(Path(sys.argv[1]) if sys.argv[1:] else folder / "sessions.db")
    agent.run()


if __name__ == "__main__":
    main()
