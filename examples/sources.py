"""An agent that searches a text in several places at once: the project, its history, and Python's own library.

Each search is a separate tool call, and all of one turn run concurrently. If the user stops one of them or the whole
turn, the hits so far stay, and the call says that they are incomplete.
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import anyio

from acp_server import Agent, ToolContext, ToolFailed, ToolResult, Turn

agent = Agent("librarian", version="1.0")


def lines(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """The place and the text of each line with a hit."""
    for file in filter(Path.is_file, files):
        try:
            with file.open(encoding="utf-8") as text:
                for number, line in enumerate(text, 1):
                    yield f"{file}:{number}", line.strip()
        except (OSError, UnicodeDecodeError):
            continue  # no text, or it may not be read


def project(folder: Path) -> Iterator[tuple[str, str]]:
    return lines(folder.rglob("*"))


def library(_folder: Path) -> Iterator[tuple[str, str]]:
    top = Path(sysconfig.get_path("stdlib"))
    names = sorted(sys.stdlib_module_names)
    return lines(file for name in names for file in [top / f"{name}.py", *(top / name).rglob("*.py")])


def history(folder: Path) -> Iterator[tuple[str, str]]:
    if shutil.which("git") is None:
        raise ToolFailed("There is no git here.")
    command = ["git", "-C", str(folder), "log", "--format=%h %s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8") as git:
        try:
            for line in git.stdout or ():
                commit, _, subject = line.partition(" ")
                yield commit, subject.strip()
        except GeneratorExit:  # the rest is not needed
            git.kill()
            raise
    if git.returncode:
        raise ToolFailed("There is no history here.")


SOURCES = {"project": project, "history": history, "library": library}


@agent.tool(kind="search", title=lambda text, source: f"Look for {text!r} in the {source}")
def look_up(text: str, source: str, call: ToolContext) -> str:  # a plain function runs in a thread
    "Look for a text."
    found = 0
    call.on_cancel = lambda: f"{found} found before it was stopped."
    with closing(SOURCES[source](Path(call.session.cwd))) as places:
        for place, line in places:
            if call.is_cancelled:
                break
            if text in line:
                found += 1
                call.progress(f"{place}: {line}\n")
    return f"{found} found."


@agent.prompt
async def search(turn: Turn):
    results: dict[str, ToolResult] = {}

    async def ask(source: str) -> None:
        results[source] = await turn.run_tool(look_up, {"text": turn.text, "source": source})

    async with anyio.create_task_group() as group:
        for source in SOURCES:
            group.start_soon(ask, source)
    for source in SOURCES:
        yield f"{source}: {results[source].message}\n"


if __name__ == "__main__":
    agent.run()
