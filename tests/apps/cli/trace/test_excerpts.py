"""Each message of the page has an excerpt in its row, in a wide and in a narrow browser."""

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_server.apps.cli import main
from tests.chromium import shown

from .recordings import Recording

TEXT = {"type": "text", "text": "It is\nread."}
SAID: list[tuple[Callable[[Recording], Any], str]] = [
    (lambda talk: talk.prompt(1, "read the <log>"), "read the <log>"),
    (lambda talk: talk.tool("c", "in_progress", title="Run it"), "Run it, in_progress"),
    (lambda talk: talk.update(content=TEXT), "It is read."),
    (lambda talk: talk.ask("in", 0, "session/new", cwd="/"), '{"cwd":"/"}'),
    (lambda talk: talk.answer("out", 0, {"sessionId": "s"}), '{"sessionId":"s"}'),
    (lambda talk: talk.answer("out", 1, {"stopReason": "end_turn"}), '{"stopReason":"end_turn"}'),
]


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize(("say", "excerpt"), SAID, ids=[excerpt for _, excerpt in SAID])
def test_a_message_has_an_excerpt_in_its_row(
    tmp_path: Path, say: Callable[[Recording], Any], excerpt: str, width: int
) -> None:
    talk = Recording()
    say(talk)
    page = tmp_path / "page.html"
    assert main(["trace", str(talk.write(tmp_path / "recording")), "--html", str(page)]) == 0
    [row] = re.findall(r'<span class="excerpt">(.*?)</span></a>', shown(page, '<span class="excerpt">', width))
    assert html.unescape(row) == excerpt
