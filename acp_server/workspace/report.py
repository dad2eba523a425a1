"""Shows what the engines find as a turn's updates: text as it comes, a tool call with locations, a plan.

When the turn is cancelled, what was found stays shown, and the last thing said is that it is not all.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

from acp_server.errors import TurnEnded
from acp_server.schema.plan import PlanEntry, PlanEntryStatus
from acp_server.schema.tool_call import ToolCall, ToolCallLocation, ToolCallProgress, ToolKind
from acp_server.session.turn import Turn
from acp_server.tasks.grace import grace
from acp_server.workspace.batches import Batches
from acp_server.workspace.commands import ReadCommand, ScanCommand, SearchCommand
from acp_server.workspace.read import Passage, Reading
from acp_server.workspace.refusal import Refusal
from acp_server.workspace.roots import Roots
from acp_server.workspace.scan import Scan
from acp_server.workspace.search import Hit, Search
from acp_server.workspace.shown import quoted, shown

MOST_LOCATIONS = 100
"""Places attached to one tool call; clients follow them, and nobody follows thousands."""

_FENCE = "~~~~"
"""Around lines that begin with a path: with a colon behind it, none of them can end the block."""


class _Call:
    """The tool call that a command is shown as."""

    def __init__(self, turn: Turn, title: str, kind: ToolKind) -> None:
        self._turn = turn
        self._id = f"call_{turn.id}"
        self._locations: list[ToolCallLocation] = []
        self._title = title
        self._kind = kind

    async def begin(self) -> None:
        call = ToolCall(tool_call_id=self._id, title=self._title, kind=self._kind, status="in_progress")
        await self._turn.update(call)

    async def locate(self, places: Sequence[tuple[str, int | None]]) -> None:
        room = MOST_LOCATIONS - len(self._locations)
        if room > 0 and places:
            self._locations += [ToolCallLocation(path=path, line=line) for path, line in places[:room]]
            await self._turn.update(ToolCallProgress(tool_call_id=self._id, locations=self._locations))

    async def end(self, status: str, output: dict[str, object]) -> None:
        await self._turn.update(ToolCallProgress(tool_call_id=self._id, status=status, raw_output=output))


class _Output:
    """What a command has found so far."""

    def counts(self) -> dict[str, object]:
        """The same for programs."""
        raise NotImplementedError

    def last_words(self) -> str:
        """What is said at the end, however it comes; empty if there is nothing to add."""
        raise NotImplementedError


@asynccontextmanager
async def _shown_as(turn: Turn, title: str, kind: ToolKind, output: _Output) -> AsyncGenerator[_Call]:
    """A tool call that always ends: completed, or failed with what there is by then."""
    call = _Call(turn, title, kind)
    status = "failed"
    try:
        await call.begin()
        yield call
        status = "completed"
    except Refusal:
        # That is what is said, by whoever takes it.
        await _at_last(call.end(status, output.counts()))
        raise
    except BaseException:
        await _say_last(turn, call, status, output)
        raise
    await _say_last(turn, call, status, output)


async def _say_last(turn: Turn, call: _Call, status: str, output: _Output) -> None:
    if words := output.last_words():
        await _at_last(turn.say(words))
    await _at_last(call.end(status, output.counts()))


async def _at_last(saying: Coroutine[Any, Any, None]) -> None:
    """Say something that is due although the turn may be cancelled, and do not wait for a client that is behind: it is
    on its way all the same. Nothing, if the turn is answered, since its cancel took too long."""
    with grace(0):
        try:
            await saying
        except TurnEnded:
            pass


class _SearchOutput(_Output):
    def __init__(self, search: Search) -> None:
        self.search = search
        self.open = False

    def counts(self) -> dict[str, object]:
        search = self.search
        return {"hits": search.hits, "files": search.files, "partial": not search.complete}

    def last_words(self) -> str:
        search = self.search
        words = f"{_FENCE}\n" if self.open else ""
        hits, files = _count(search.hits, "hit"), _count(search.files, "file")
        if search.complete:
            words += f"{hits} in {files}.\n"
        else:
            # The file that a search was stopped in may have hits, and is not searched.
            words += f"Partial results: {hits}, and {files} searched to the end, before "
            words += "the pattern turned out to be too slow.\n" if search.gave_up else "it was stopped.\n"
        if search.skipped:
            words += f"{_count(len(search.skipped), 'place')} could not be searched.\n"
        return words


async def show_search(turn: Turn, roots: Roots, command: SearchCommand) -> None:
    """Hits as they are found, with the first of their places attached. Raises Refusal."""
    output = _SearchOutput(search := Search(roots, command.pattern, command.path))
    async with _shown_as(turn, f"Search for {quoted(command.pattern)}", "search", output) as call:
        with closing(Batches(search.run())) as batches:
            try:
                async for batch in batches:
                    await _say_hits(turn, roots, batch, output)
                    await call.locate(_places(batch))
            finally:
                # Found in the moment of a cancel: counted, so it has to be shown as well.
                await _at_last(_say_hits(turn, roots, batches.pending, output))
                await _at_last(call.locate(_places(batches.pending)))


async def _say_hits(turn: Turn, roots: Roots, hits: Sequence[Hit], output: _SearchOutput) -> None:
    if hits:
        fence = "" if output.open else f"{_FENCE}\n"
        output.open = True
        lines = (f"{roots.display(hit.path)}:{hit.line}:{hit.column}: {hit.text}\n" for hit in hits)
        await turn.say(fence + "".join(lines))


def _places(hits: Sequence[Hit]) -> list[tuple[str, int | None]]:
    return [(hit.path, hit.line) for hit in hits]


class _ReadOutput(_Output):
    def __init__(self) -> None:
        self.passage: Passage | None = None

    def counts(self) -> dict[str, object]:
        return {} if self.passage is None else {"first": self.passage.first, "last": self.passage.last}

    def last_words(self) -> str:
        if self.passage is None:
            return "It was stopped before there was anything to show.\n"
        return "" if self.passage.left_out is None else f"{self.passage.left_out}\n"


async def show_passage(turn: Turn, roots: Roots, command: ReadCommand) -> None:
    """The lines of a file, or the part of them that is not too much at once. Raises Refusal."""
    output = _ReadOutput()
    async with _shown_as(turn, f"Read {quoted(command.target)}", "read", output) as call:
        async for (passage,) in Batches(Reading(roots, command.target).run()):
            output.passage = passage
            await turn.say(_block("\n".join(map(shown, passage.text.split("\n")))))
            await call.locate([(passage.path, passage.first)])


class _ScanOutput(_Output):
    def __init__(self, scan: Scan, roots: Roots) -> None:
        self._scan = scan
        self._roots = roots

    def counts(self) -> dict[str, object]:
        scan = self._scan
        languages = {name: {"files": tally.files, "lines": tally.lines} for name, tally in scan.languages.items()}
        return {"files": scan.files, "lines": scan.lines, "languages": languages, "partial": not scan.complete}

    def last_words(self) -> str:
        scan = self._scan
        display = self._roots.display
        words: list[str] = []
        if not scan.complete:
            words.append(
                f"Partial results: {scan.files_read} of {scan.files}{'' if scan.listed else ' or more'} files were "
                "read before it was stopped.\n"
            )
        words.append(f"{_count(scan.files, 'file')}, {_count(scan.bytes, 'byte')}, {_count(scan.lines, 'line')}\n")
        if scan.languages:
            words.append("| language | files | lines |\n| --- | ---: | ---: |")
            by_lines = sorted(scan.languages.items(), key=lambda item: (-item[1].lines, item[0]))
            words += [f"| {name} | {tally.files:,} | {tally.lines:,} |" for name, tally in by_lines]
            words.append("")
        if largest := scan.largest:
            words.append("Largest files:\n")
            words += [f"- {_code(display(path))}: {_count(size, 'byte')}" for size, path in largest]
            words.append("")
        if scan.todos:
            words.append(f"To do ({scan.todo_count:,}):\n\n{_FENCE}")
            words += [f"{display(todo.path)}:{todo.line}: {todo.text}" for todo in scan.todos]
            words.append(_FENCE)
        if scan.skipped:
            words.append(f"{_count(len(scan.skipped), 'place')} could not be read.")
        return "\n".join(words).rstrip("\n") + "\n"


async def show_scan(turn: Turn, roots: Roots, command: ScanCommand) -> None:
    """A plan of two steps, then the numbers. Raises Refusal."""
    scan = Scan(roots, command.path)
    async with _shown_as(turn, "Scan the project", "read", _ScanOutput(scan, roots)) as call:
        try:
            await _plan(turn, "in_progress", "pending")
            async for _ in Batches[None](scan.list_files()):
                pass
            await _plan(turn, "completed", "in_progress")
            with closing(Batches(scan.read_files())) as batches:
                async for batch in batches:
                    await call.locate([(todo.path, todo.line) for todo in batch])
            await _plan(turn, "completed", "completed")
        except Refusal:
            await turn.plan([])
            raise
        except BaseException:
            done: dict[bool, PlanEntryStatus] = {True: "completed", False: "pending"}
            await _at_last(_plan(turn, done[scan.listed], done[scan.complete]))
            raise


async def _plan(turn: Turn, find: PlanEntryStatus, count: PlanEntryStatus) -> None:
    await turn.plan(
        [
            PlanEntry(content="Find the files", priority="medium", status=find),
            PlanEntry(content="Count lines by language and look for what is to do", priority="medium", status=count),
        ]
    )


def _block(text: str) -> str:
    """The lines as a block of Markdown that none of them can end."""
    fence = "~" * max(4, 1 + max(map(len, re.findall("~+", text)), default=0))
    return f"{fence}\n{text}\n{fence}\n"


def _code(text: str) -> str:
    """The text as code in a line of Markdown, which nothing in it can end."""
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (1 + max(map(len, re.findall("`+", text))))
    return f"{ticks} {text} {ticks}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
