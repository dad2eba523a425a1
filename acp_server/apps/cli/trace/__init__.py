"""`acp-server trace`: a recorded conversation for a reader, as text or as a page.

`acp_server.agent.record` makes the recordings. They are analysed message by message:

parts         messages, spans with a beginning and an end, and the cancels that cut them
conversation  the messages together: the spans that they begin and end, and their nesting
anomalies     faults of that
export        all of it as a page of HTML, a short one as a picture; here as lines of text
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from acp_server.agent.record import read_recording
from acp_server.apps.cli.screen import Screen, one_line, use_standard_output
from acp_server.apps.cli.trace.anomalies import LATE, SLOW, Anomaly, anomalies
from acp_server.apps.cli.trace.conversation import Conversation
from acp_server.apps.cli.trace.export import page, picture
from acp_server.apps.cli.trace.parts import Mark
from acp_server.errors import UsageError
from acp_server.paths import open_private

_ELSEWHERE: Final = (120, 24)
"""The size of the terminal to assume if the output is not a terminal."""


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write a page to FILE.")
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a picture of a short conversation to FILE.",
)
@click.option("--text", is_flag=True, help="Show it as text. This is the default without --html and --svg.")
@click.option("--full", is_flag=True, help="Show every message whole, however long it is.")
@click.option(
    "--slow",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=SLOW,
    show_default=True,
    help="A response that takes longer is slow. A request that waits for a user, a model or a program is never slow.",
)
@click.option(
    "--late",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=LATE,
    show_default=True,
    help="A response that comes this long after a cancel is late.",
)
def trace(file: str, html: Path | None, svg: Path | None, text: bool, full: bool, slow: float, late: float) -> int:
    """Show a recorded conversation: --> is to the agent, <-- from it.

    Below it stands what is wrong with it: requests that were never answered, answered late or twice, updates after the
    end of their turn, slow answers. As text, the exit code is 1 if there is a fault, or if the recording has no
    messages. A last line that was cut off is left out.
    """
    recording = read_recording(file)
    if recording.left_out is not None:
        click.echo(f"acp-server: {file}, line {recording.left_out} is left out: it was cut off", err=True)
    conversation = Conversation(recording.entries)
    is_empty = not conversation.messages
    if is_empty:
        click.echo(f"acp-server: {file} has no messages", err=True)
    found = anomalies(conversation, slow, late)
    if html is not None:
        _write(html, page(conversation, found, Path(file).name, full=full), file)
    if svg is not None:
        _write(svg, picture(conversation), file)
    if (html is not None or svg is not None) and not text:
        return 1 if is_empty else 0
    _show(conversation, found, full)
    return 1 if found or is_empty else 0


def _write(path: Path, text: str, recording: str) -> None:
    """Write the text to a new file that only the readers of the recording can read."""
    try:
        mode = os.stat(recording).st_mode & 0o666 if os.path.isfile(recording) else 0o600
        # Half of a surrogate pair is legal JSON, but cannot be written to a file.
        with open(open_private(path, os.O_TRUNC, mode=mode | 0o200), "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _show(conversation: Conversation, found: list[Anomaly], full: bool) -> None:
    use_standard_output()
    screen = Screen()
    width = None if full else shutil.get_terminal_size(_ELSEWHERE).columns
    for row in rows(conversation, found):
        rest = one_line(row.rest)
        if width is not None and not row.whole and len(row.text) + 2 + len(rest) > width:
            rest = rest[: max(0, width - len(row.text) - 5)] + "..."
        style: dict[str, Any] = {"fg": row.colour} if row.colour else {}
        screen.line(row.text, f"  {rest}" if rest else "", **style)


_ARROWS: Final = {"in": "-->", "out": "<--"}
_COLOURS: Final[dict[Mark, str]] = {
    "request": "cyan",
    "answer": "green",
    "cancelled": "yellow",
    "cancel": "yellow",
    "failed": "red",
    "garbage": "red",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `rest` may be cut, unless `whole` is set."""

    text: str
    rest: str = ""
    colour: str | None = None
    whole: bool = False


def rows(conversation: Conversation, found: Sequence[Anomaly]) -> Iterator[Row]:
    """Yield the lines to show."""
    for message in conversation.messages:
        text = f"{message.t:9.3f} {_ARROWS[message.dir]} {message.title}"
        yield Row(text, message.rest, _COLOURS.get(message.mark))
    for anomaly in found:
        t = conversation.messages[anomaly.message].t
        yield Row(f"{t:9.3f} !!! {anomaly.what}: {anomaly.span.title}", anomaly.why, "red", whole=True)
