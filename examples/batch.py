"""An agent with a long job: it finds the files of the session's folder that have the same content.

The call's title shows the progress. When the user stops it, its last text says how far it came, and its raw output says
so to programs.
"""

import hashlib
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
from anyio import to_thread

from acp_server import Agent, ToolContext, Turn

agent = Agent("duplicates", version="1.0")


async def digest(file: Path) -> bytes:
    hashed = hashlib.sha256()
    async with await anyio.open_file(file, "rb") as content:
        while piece := await content.read(1024 * 1024):  # each of these can be the last
            hashed.update(piece)
    return hashed.digest()


def files_below(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


@agent.tool(kind="read")
async def find_duplicates(call: ToolContext) -> AsyncGenerator[str]:
    "Find files with the same content."
    folder = Path(call.session.cwd)
    files = await to_thread.run_sync(files_below, folder)
    first: dict[bytes, Path] = {}
    percent = done = 0
    call.on_cancel = lambda: f"{done} of {len(files)} files were compared before it was stopped."
    for file in files:
        call.raw_output = {"compared": done, "files": len(files), "duplicates": done - len(first)}
        try:
            known = first.setdefault(await digest(file), file)
        except OSError:
            continue  # the file is gone, or may not be read
        if known is not file:
            yield f"{file.relative_to(folder)} is {known.relative_to(folder)}\n"
        done += 1
        if percent != done * 100 // len(files):
            percent = done * 100 // len(files)
            call.set_title(f"Find files with the same content: {percent} %")
    call.raw_output = {"compared": done, "files": len(files), "duplicates": done - len(first)}
    yield f"{done} files were compared, {done - len(first)} of them are duplicates."


@agent.prompt
async def compare(turn: Turn):
    result = await turn.run_tool("find_duplicates")
    yield f"{result.message or result.status}\n"


if __name__ == "__main__":
    agent.run()
