"""Shows what the engines find as a turn's updates: text as it comes, a tool call with locations, a plan.

When the turn is cancelled, what was found stays shown, and the last thing said is that it is not all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

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
"""Longer than what ordinary Markdown in the files uses, so that nothing found ends the block it is shown in."""

_LAST_WORDS = 1.0
"""Seconds that a cancelled turn gets to say what it has, should the client be behind with reading."""


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


@asynccontextmanager
async def _shown_as(turn: Turn, title: str, kind: ToolKind, output: _Output) -> AsyncGenerator[_Call]:
    """A tool call that always ends: completed, or failed with what there is by then."""
    call = _Call(turn, title, kind)
    await call.begin()
    try:
        yield call
    except Refusal:
        await call.end("failed", output.counts())
        raise
    except BaseException:
        with grace(_LAST_WORDS):
            await turn.say(output.last_words())
            await call.end("failed", output.counts())
        raise
    await turn.say(output.last_words())
    await call.end("completed", output.counts())


class _Output:
    """What a command has found so far."""

    def counts(self) -> dict[str, object]:
        """The same for programs."""
        raise NotImplementedError

    def last_words(self) -> str:
        """What is said at the end, however it comes."""
        raise NotImplementedError


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
        self.open = False
        found = f"{_count(search.hits, 'hit')} in {_count(search.files, 'file')}"
        if search.complete:
            words += f"{found}.\n"
        elif search.gave_up:
            words += f"Partial results: {found}. The pattern is too slow for these files.\n"
        else:
            words += f"Partial results: {found} before it was stopped.\n"
        if search.skipped:
            words += f"{_count(len(search.skipped), 'place')} could not be searched.\n"
        return words


async def show_search(turn: Turn, roots: Roots, command: SearchCommand) -> None:
    """Hits as they are found, with the first of their places attached. Raises Refusal."""
    output = _SearchOutput(search := Search(roots, command.pattern, command.path))
    async with _shown_as(turn, f"Search for {quoted(command.pattern)}", "search", output) as call:
        batches = Batches(search.run())
        try:
            async for batch in batches:
                await _say_hits(turn, roots, batch, output)
                await call.locate([(hit.path, hit.line) for hit in batch])
        except BaseException:
            with grace(_LAST_WORDS):
                # Found in the moment of the cancel: counted, so it has to be shown as well.
                await _say_hits(turn, roots, batches.pending, output)
            raise


async def _say_hits(turn: Turn, roots: Roots, hits: Sequence[Hit], output: _SearchOutput) -> None:
    if hits:
        fence = "" if output.open else f"{_FENCE}\n"
        output.open = True
        lines = (f"{shown(roots.display(hit.path))}:{hit.line}:{hit.column}: {shown(hit.text)}\n" for hit in hits)
        await turn.say(fence + "".join(lines))


async def show_passage(turn: Turn, roots: Roots, command: ReadCommand) -> None:
    """The lines of a file, numbered from the first one that was asked for. Raises Refusal."""
    call = _Call(turn, f"Read {quoted(command.target)}", "read")
    await call.begin()
    try:
        passage: Passage | None = None
        async for batch in Batches(Reading(roots, command.target).run()):
            passage = batch[-1]
        assert passage is not None
    except BaseException:
        with grace(_LAST_WORDS):
            await call.end("failed", {})
        raise
    await call.locate([(passage.path, passage.first)])
    text = "\n".join(shown(line) for line in passage.text.split("\n"))
    await turn.say(f"{_FENCE}\n{text}\n{_FENCE}\n")
    if passage.left_out is not None:
        await turn.say(f"{passage.left_out}\n")
    await call.end("completed", {"first": passage.first, "last": passage.last})


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
        if scan.largest:
            words.append("Largest files:\n")
            words += [f"- `{self._display(path)}`: {_count(size, 'byte')}" for size, path in scan.largest]
            words.append("")
        if scan.todos:
            words.append(f"To do ({scan.todo_count:,}):\n\n{_FENCE}")
            words += [f"{self._display(todo.path)}:{todo.line}: {shown(todo.text)}" for todo in scan.todos]
            words.append(_FENCE)
        if scan.skipped:
            words.append(f"{_count(len(scan.skipped), 'place')} could not be read.")
        return "\n".join(words).rstrip("\n") + "\n"

    def _display(self, path: str) -> str:
        return shown(self._roots.display(path))


async def show_scan(turn: Turn, roots: Roots, command: ScanCommand) -> None:
    """A plan of two steps, then the numbers. Raises Refusal."""
    scan = Scan(roots, command.path)
    async with _shown_as(turn, "Scan the project", "read", _ScanOutput(scan, roots)) as call:
        await _plan(turn, "in_progress", "pending")
        async for _ in Batches[None](scan.list_files()):
            pass
        await _plan(turn, "completed", "in_progress")
        async for batch in Batches(scan.read_files()):
            await call.locate([(todo.path, todo.line) for todo in batch])
        await _plan(turn, "completed", "completed")


async def _plan(turn: Turn, find: PlanEntryStatus, count: PlanEntryStatus) -> None:
    await turn.plan(
        [
            PlanEntry(content="Find the files", priority="medium", status=find),
            PlanEntry(content="Count lines by language and look for what is to do", priority="medium", status=count),
        ]
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
