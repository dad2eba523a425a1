"""The tools that only look: what the engines find as a turn's updates, text as it comes, places, a plan.

Each is a tool call of its own, and what is said is one message of the turn. When a call is cancelled, alone or with its
turn, what was found stays shown, and the last thing said is that it is not all.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from contextlib import closing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from acp_server.apps.coder.batches import Batches
from acp_server.apps.coder.read import Passage, Reading, Skipped
from acp_server.apps.coder.roots import Refusal, Roots, printable, quoted
from acp_server.apps.coder.scan import Scan
from acp_server.apps.coder.search import Hit, Matcher, Search
from acp_server.errors import EncodeError, MalformedResponse, RequestCancelled, RpcError, TurnEnded
from acp_server.session.turn import Turn
from acp_server.tasks.grace import grace
from acp_server.tools.approval import block, code
from acp_server.tools.context import ToolContext

if TYPE_CHECKING:
    from acp_server.schema.updates import PlanEntryStatus

MOST_LOCATIONS = 100
"""Places attached to one tool call; clients follow them, and a user cannot follow thousands."""

MOST_FROM_EDITOR = 1024 * 1024
"""Bytes of a file on disk up to which its text is had from the client's editor, in one message."""

_MOST_IGNORE_FILES = 10
"""Ignore files that take too long and are named."""

_FENCE = "~~~~"
"""Around lines that begin with a path: with a colon behind it, none of them can end the block."""


async def at_last(saying: Coroutine[Any, Any, None]) -> None:
    """Say something that is due although the turn may be cancelled, and do not wait for a client that is behind: it is
    on its way all the same. A turn that is answered, since its cancel took too long, says nothing."""
    with grace(0):
        try:
            await saying
        except TurnEnded:
            pass


async def say_block(turn: Turn, text: str) -> None:
    """Say a block of code, in two pieces with nothing between them.

    The renderer of Toad (Textual's Markdown) takes the last line of a message's first piece for the beginning of what
    follows. So that piece has one line.
    """
    from acp_server.schema.content import TextContent
    from acp_server.schema.updates import AgentMessageChunk

    fence, rest = text.split("\n", 1)
    turn.put(AgentMessageChunk(content=TextContent(text=f"{fence}\n")))
    await turn.say(rest)


def locate(call: ToolContext, places: Sequence[tuple[str, int | None]]) -> None:
    """Have the client follow to these places: each a path and a line, counted from 1."""
    from acp_server.schema.tool_call import ToolCallLocation

    before = call.locations
    room = MOST_LOCATIONS - len(before)
    if room > 0 and places:
        call.locations = [*before, *(ToolCallLocation(path=path, line=line) for path, line in places[:room])]


# -- search


class _Finding:
    """One of the searches of a message, and what is said of it."""

    def __init__(self, search: Search, batches: Batches[Hit], roots: Roots) -> None:
        self._search = search
        self._batches = batches
        self._roots = roots
        self.said = 0
        """Hits that were said."""

    def stop(self, call: ToolContext) -> str:
        """Stop, and return what is to be said of it."""
        self._batches.stop()
        call.raw_output = self.counts()
        return str(self)

    @property
    def hits(self) -> int:
        """How many were found: those that are still to be said are as good as said."""
        return self.said + len(self._batches.pending)

    def counts(self) -> dict[str, object]:
        """The results so far, for programs."""
        return {"hits": self.hits, "files": self._search.files, "partial": not self._search.complete}

    def __str__(self) -> str:
        """What the search has come to, in words for users."""
        search = self._search
        hits, files = _count(self.hits, "hit"), _count(search.files, "file")
        if search.complete:
            words = f"{hits} in {files}."
        else:
            # The file that a search was stopped in may have hits, and is not searched.
            words = f"Partial results: {hits}, and {files} searched to the end, before "
            words += "the pattern turned out to be too slow." if search.gave_up else "it was stopped."
        return "\n".join([words, *_skipped(search.skipped, "searched", self._roots)])


def _skipped(skipped: Sequence[Skipped], done: str, roots: Roots) -> list[str]:
    """What was left out: places in a word, ignore files by their names, since they change what is found."""
    ignore_files = [each for each in skipped if each.rules is not None]
    words = [f"{code(roots.display(each.path))}: {each.reason}." for each in ignore_files[:_MOST_IGNORE_FILES]]
    if more := len(ignore_files[_MOST_IGNORE_FILES:]):
        words.append(f"{_count(more, 'more ignore file')} of this kind.")
    if places := len(skipped) - len(ignore_files):
        words.append(f"{_count(places, 'place')} could not be {done}.")
    return words


class _Message:
    """What is said of one message's searches: the hits of all of them as they come, then what each has come to."""

    def __init__(self, turn: Turn, roots: Roots) -> None:
        self._turn = turn
        self._roots = roots
        self.findings: dict[str | None, _Finding | Refusal] = {}
        """By the paths as they were typed."""

    async def say(self, finding: _Finding, hits: Sequence[Hit]) -> None:
        """Hits, each on a line, as a block of code. The block ends with them, for some clients show an update of a tool
        call, which may come next, in the same place and read what follows it as a text of its own."""
        if hits:
            finding.said += len(hits)
            lines = (f"{self._roots.display(hit.path)}:{hit.line}:{hit.column}: {hit.text}\n" for hit in hits)
            await say_block(self._turn, f"{_FENCE}\n{''.join(lines)}{_FENCE}\n")

    def last_words(self, paths: Sequence[str | None]) -> str:
        """What is said at the end, however it comes."""
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
    """The title that the user sees."""
    return f"Search for {quoted(pattern)}" + ("" if path is None else f" in {quoted(path)}")


async def search(pattern: str, call: ToolContext, path: str | None = None) -> str:
    """Search the files for a regular expression."""
    message = _message.get()
    # To compile the largest patterns takes tens of milliseconds.
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
            # Found in the moment of a cancel: counted, so it has to be shown as well.
            pending, batches.pending = batches.pending, []
            await at_last(message.say(finding, pending))
            call.raw_output = finding.counts()
    return str(finding)


async def show_search(turn: Turn, tool: Any, pattern: str, paths: Sequence[str | None]) -> None:
    """Search in each of the paths, at the same time. Raises Refusal for a pattern that is not valid."""
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
    """The title that the user sees."""
    return f"Read {quoted(target)}"


async def read(target: str, call: ToolContext) -> None:
    """Show a file or some of its lines, or the part of them that is not too much at once."""
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
    """The text of a file as the client's editor has it; None if that is not to be had."""
    if not call.client.capabilities.fs.read_text_file:
        return None
    try:
        if await to_thread.run_sync(os.path.getsize, path) > MOST_FROM_EDITOR:
            return None
        return await call.client.read_text_file(path)
    except RequestCancelled:
        raise
    except (OSError, RpcError, MalformedResponse, EncodeError):
        # It may be no text, for example, which reading it will tell.
        return None


# -- scan


class _Counting:
    """A scan while it runs, and what is said of it."""

    def __init__(self, scan: Scan, roots: Roots) -> None:
        self._scan = scan
        self._roots = roots
        self.batches: Batches[Any] | None = None
        """What is counting now."""

    def stop(self, call: ToolContext) -> str:
        """Stop, and return what is to be said of it."""
        if self.batches is not None:
            self.batches.stop()
        call.raw_output = self.counts()
        return self.words()

    def counts(self) -> dict[str, object]:
        """The results so far, for programs."""
        scan = self._scan
        languages = {name: {"files": tally.files, "lines": tally.lines} for name, tally in list(scan.languages.items())}
        return {"files": scan.files, "lines": scan.lines, "languages": languages, "partial": not scan.complete}

    def words(self) -> str:
        """What the scan has come to, in a few words for users."""
        scan = self._scan
        numbers = f"{_count(scan.files, 'file')}, {_count(scan.bytes, 'byte')}, {_count(scan.lines, 'line')}\n"
        if scan.complete:
            return numbers
        found = f"{scan.files}{'' if scan.listed else ' or more'}"
        return f"Partial results: {scan.files_read} of {found} files were read before it was stopped.\n{numbers}"

    def all_words(self) -> str:
        """All that users are told."""
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
    """The title that the user sees."""
    return "Scan the project" if path is None else f"Scan {quoted(path)}"


async def scan(call: ToolContext, path: str | None = None) -> None:
    """Count files, lines by language, and what is still to do: a plan of two steps, then the numbers."""
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
    from acp_server.schema.updates import PlanEntry

    await turn.plan(
        [
            PlanEntry(content="Find the files", priority="medium", status=find),
            PlanEntry(content="Count lines by language and look for what is to do", priority="medium", status=count),
        ]
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
