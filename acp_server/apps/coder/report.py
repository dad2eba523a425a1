"""The read-only tools. They send the results of the engines as updates of a turn: streamed text, locations, and a plan.

Each is a separate tool call, and its text is one message of the turn. When a call is cancelled, alone or with its turn,
its results stay shown, followed by a sentence that they are partial.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from contextlib import closing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from acp_server import EncodeError, MalformedResponse, RequestCancelled, RpcError, ToolContext, Turn, TurnEnded, grace
from acp_server.apps.coder.batches import Batches
from acp_server.apps.coder.read import Passage, Reading, Skipped
from acp_server.apps.coder.roots import Refusal, Roots, printable, quoted
from acp_server.apps.coder.scan import Scan
from acp_server.apps.coder.search import Hit, Matcher, Search
from acp_server.tools.approval import block, code

if TYPE_CHECKING:
    from acp_server.schema import PlanEntryStatus

MOST_LOCATIONS = 100
"""The most locations of one tool call. Clients follow them, and a user cannot follow thousands."""

MOST_FROM_EDITOR = 1024 * 1024
"""The largest size, in bytes, of a file on disk whose text is requested from the client's editor. The client sends it
in one message."""

_MOST_IGNORE_FILES = 10
"""The most ignore files that are listed by name because they take too long."""

_FENCE = "~~~~"
"""The fence around lines that begin with a path and a colon. Such a line cannot end the block."""


async def at_last(saying: Coroutine[Any, Any, None]) -> None:
    """Send a last text even if the turn is cancelled. The text is buffered, so this does not wait for a slow client.
    Nothing is sent if the turn was answered already because its cleanup took too long."""
    with grace(0):
        try:
            await saying
        except TurnEnded:
            pass


async def say_block(turn: Turn, text: str) -> None:
    """Say a block of code in two chunks with nothing between them.

    Toad renders Markdown with Textual. It treats the last line of a message's first chunk as the start of the next
    chunk. So the first chunk has one line.
    """
    from acp_server.schema import AgentMessageChunk, TextContent

    fence, rest = text.split("\n", 1)
    turn.put(AgentMessageChunk(content=TextContent(text=f"{fence}\n")))
    await turn.say(rest)


def locate(call: ToolContext, places: Sequence[tuple[str, int | None]]) -> None:
    """Add locations to the call. Each is a path and a line, counted from 1. The client follows them."""
    from acp_server.schema import ToolCallLocation

    before = call.locations
    room = MOST_LOCATIONS - len(before)
    if room > 0 and places:
        call.locations = [*before, *(ToolCallLocation(path=path, line=line) for path, line in places[:room])]


# -- search


class _Finding:
    """One of the searches of a message, with its text."""

    def __init__(self, search: Search, batches: Batches[Hit], roots: Roots) -> None:
        self._search = search
        self._batches = batches
        self._roots = roots
        self.said = 0
        """The number of hits that were said."""

    def stop(self, call: ToolContext) -> str:
        """Stop, and return the sentence for the user."""
        self._batches.stop()
        call.raw_output = self.counts()
        return str(self)

    @property
    def hits(self) -> int:
        """Return the number of hits, including pending hits, which will be said."""
        return self.said + len(self._batches.pending)

    def counts(self) -> dict[str, object]:
        """Return the results so far, as data."""
        return {"hits": self.hits, "files": self._search.files, "partial": not self._search.complete}

    def __str__(self) -> str:
        """Return the results in words for users."""
        search = self._search
        hits, files = _count(self.hits, "hit"), _count(search.files, "file")
        if search.complete:
            words = f"{hits} in {files}."
        else:
            # The file in which a search was stopped may have hits, but does not count as searched.
            words = f"Partial results: {hits}, and {files} searched to the end, before "
            words += "the pattern turned out to be too slow." if search.gave_up else "it was stopped."
        return "\n".join([words, *_skipped(search.skipped, "searched", self._roots)])


def _skipped(skipped: Sequence[Skipped], done: str, roots: Roots) -> list[str]:
    """Return sentences about skipped files. Ignore files are listed by name, because they change the results. Of other
    files only the number is shown."""
    ignore_files = [each for each in skipped if each.rules is not None]
    words = [f"{code(roots.display(each.path))}: {each.reason}." for each in ignore_files[:_MOST_IGNORE_FILES]]
    if more := len(ignore_files[_MOST_IGNORE_FILES:]):
        words.append(f"{_count(more, 'more ignore file')} of this kind.")
    if places := len(skipped) - len(ignore_files):
        words.append(f"{_count(places, 'place')} could not be {done}.")
    return words


class _Message:
    """The message about all searches of one command. It has the hits as they come, then the result of each search."""

    def __init__(self, turn: Turn, roots: Roots) -> None:
        self._turn = turn
        self._roots = roots
        self.findings: dict[str | None, _Finding | Refusal] = {}
        """The searches, by the paths as the user typed them."""

    async def say(self, finding: _Finding, hits: Sequence[Hit]) -> None:
        """Say hits, one on each line, as a block of code. The block ends with these hits. Some clients show an update
        of a tool call, which may come next, in the same place, and treat later text as a new text."""
        if hits:
            finding.said += len(hits)
            lines = (f"{self._roots.display(hit.path)}:{hit.line}:{hit.column}: {hit.text}\n" for hit in hits)
            await say_block(self._turn, f"{_FENCE}\n{''.join(lines)}{_FENCE}\n")

    def last_words(self, paths: Sequence[str | None]) -> str:
        """Return the text at the end, however the searches ended."""
        words = ""
        for path in paths:
            finding = self.findings.get(path)
            if finding is None:
                continue
            said = str(finding)
            if path is not None and len(paths) > 1:
                name = f"{quoted(path)}: " if isinstance(finding, _Finding) else ""
                said = f"- {name}{said}".replace("\n", "\n  ")
            words += f"{said}\n"
        return words


_message: ContextVar[_Message] = ContextVar("the message that a search is part of")


def search_title(pattern: str, path: str | None = None) -> str:
    """Return the title of the call for the user."""
    return f"Search for {quoted(pattern)}" + ("" if path is None else f" in {quoted(path)}")


async def search(pattern: str, call: ToolContext, path: str | None = None) -> str:
    """Search the files for a regular expression."""
    message = _message.get()
    # Compiling the largest patterns takes tens of milliseconds.
    engine = await to_thread.run_sync(Search, call.session.data, pattern, path)
    with closing(Batches(engine.run())) as batches:
        finding = _Finding(engine, batches, call.session.data)
        call.on_cancel = lambda: finding.stop(call)
        message.findings[path] = finding
        try:
            async for batch in batches:
                await message.say(finding, batch)
                locate(call, [(hit.path, hit.line) for hit in batch])
        except Refusal as refusal:
            message.findings[path] = refusal
            raise
        finally:
            # Hits that were found at the moment of a cancel are counted, so they must be shown too.
            pending, batches.pending = batches.pending, []
            await at_last(message.say(finding, pending))
            call.raw_output = finding.counts()
    return str(finding)


async def show_search(turn: Turn, tool: Any, pattern: str, paths: Sequence[str | None]) -> None:
    """Search all of the paths at the same time. Raises Refusal for an invalid pattern."""
    await to_thread.run_sync(Matcher, pattern)
    paths = list(dict.fromkeys(paths))
    message = _Message(turn, turn.session.data)
    _message.set(message)
    try:
        async with anyio.create_task_group() as group:
            for path in paths:
                where = {} if path is None else {"path": path}
                group.start_soon(turn.run_tool, tool, {"pattern": pattern, **where})
    finally:
        await at_last(turn.say(message.last_words(paths)))


# -- read


def read_title(target: str) -> str:
    """Return the title of the call for the user."""
    return f"Read {quoted(target)}"


async def read(target: str, call: ToolContext) -> None:
    """Show a file or some of its lines, as many as fit."""
    passage: Passage | None = None
    nothing = "It was stopped before there was anything to show."
    call.on_cancel = lambda: None if passage else nothing
    last_words = nothing
    try:
        reading = Reading(call.session.data, target)
        path = await to_thread.run_sync(reading.find)
        async for (passage,) in Batches(reading.run(await in_editor(call, path))):
            last_words = passage.left_out or ""
            call.raw_output = {"first": passage.first, "last": passage.last}
            locate(call, [(passage.path, passage.first)])
            await say_block(call.turn, block("\n".join(map(printable, passage.text.split("\n")))))
    except Refusal:
        last_words = ""
        raise
    finally:
        if last_words:
            await at_last(call.turn.say(f"{last_words}\n"))


async def in_editor(call: ToolContext, path: str) -> str | None:
    """Return the text of a file in the client's editor; None if it is not available."""
    if not call.client.capabilities.fs.read_text_file:
        return None
    try:
        if await to_thread.run_sync(os.path.getsize, path) > MOST_FROM_EDITOR:
            return None
        return await call.client.read_text_file(path)
    except RequestCancelled:
        raise
    except (OSError, RpcError, MalformedResponse, EncodeError):
        # The file may not be text, for example, which reading it reports.
        return None


# -- scan


class _Counting:
    """A running scan, with its text."""

    def __init__(self, scan: Scan, roots: Roots) -> None:
        self._scan = scan
        self._roots = roots
        self.batches: Batches[Any] | None = None
        """The part of the scan that runs now."""

    def stop(self, call: ToolContext) -> str:
        """Stop, and return the sentence for the user."""
        if self.batches is not None:
            self.batches.stop()
        call.raw_output = self.counts()
        return self.words()

    def counts(self) -> dict[str, object]:
        """Return the results so far, as data."""
        scan = self._scan
        languages = {name: {"files": tally.files, "lines": tally.lines} for name, tally in list(scan.languages.items())}
        return {"files": scan.files, "lines": scan.lines, "languages": languages, "partial": not scan.complete}

    def words(self) -> str:
        """Return a short result for users."""
        scan = self._scan
        numbers = f"{_count(scan.files, 'file')}, {_count(scan.bytes, 'byte')}, {_count(scan.lines, 'line')}\n"
        if scan.complete:
            return numbers
        found = f"{scan.files}{'' if scan.listed else ' or more'}"
        return f"Partial results: {scan.files_read} of {found} files were read before it was stopped.\n{numbers}"

    def all_words(self) -> str:
        """Return the whole result for users."""
        scan = self._scan
        display = self._roots.display
        words = [self.words()]
        if scan.languages:
            words.append("| language | files | lines |\n| --- | ---: | ---: |")
            by_lines = sorted(scan.languages.items(), key=lambda item: (-item[1].lines, item[0]))
            words += [f"| {name} | {tally.files:,} | {tally.lines:,} |" for name, tally in by_lines]
            words.append("")
        if largest := scan.largest:
            words.append("Largest files:\n")
            words += [f"- {code(display(path))}: {_count(size, 'byte')}" for size, path in largest]
            words.append("")
        if scan.todos:
            words.append(f"To do ({scan.todo_count:,}):\n\n{_FENCE}")
            words += [f"{display(todo.path)}:{todo.line}: {todo.text}" for todo in scan.todos]
            words.append(_FENCE)
        words += _skipped(scan.skipped, "read", self._roots)
        return "\n".join(words).rstrip("\n") + "\n"


def scan_title(path: str | None = None) -> str:
    """Return the title of the call for the user."""
    return "Scan the project" if path is None else f"Scan {quoted(path)}"


async def scan(call: ToolContext, path: str | None = None) -> None:
    """Count files, lines by language, and open tasks: a plan of two steps, then the numbers."""
    turn, roots = call.turn, call.session.data
    engine = Scan(roots, path)
    counting = _Counting(engine, roots)
    call.on_cancel = lambda: counting.stop(call)
    refused = False
    try:
        await _plan(turn, "in_progress", "pending")
        with closing(Batches[None](engine.list_files())) as counting.batches:
            async for _ in counting.batches:
                pass
        await _plan(turn, "completed", "in_progress")
        with closing(Batches(engine.read_files())) as counting.batches:
            async for batch in counting.batches:
                locate(call, [(todo.path, todo.line) for todo in batch])
    except Refusal:
        refused = True
        await turn.plan([])
        raise
    finally:
        if not refused:
            call.raw_output = counting.counts()
            done: dict[bool, PlanEntryStatus] = {True: "completed", False: "pending"}
            await at_last(_plan(turn, done[engine.listed], done[engine.complete]))
            await at_last(turn.say(counting.all_words()))


async def _plan(turn: Turn, find: PlanEntryStatus, count: PlanEntryStatus) -> None:
    from acp_server.schema import PlanEntry

    await turn.plan(
        [
            PlanEntry(content="Find the files", priority="medium", status=find),
            PlanEntry(content="Count lines by language and look for open tasks", priority="medium", status=count),
        ]
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
