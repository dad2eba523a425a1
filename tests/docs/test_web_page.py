"""The page of `examples/web`, in a real browser: what a user sees and does."""

import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser import Page, page_in_browser

WEB = Path(__file__).resolve().parents[2] / "examples" / "web"
ENTER, ESCAPE = ("Enter", 13), ("Escape", 27)
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script><b>bold</b>"
LAST = "document.querySelector('#log').lastChild?.textContent"
IDLE = "document.body.dataset.state === 'idle'"

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None or not (WEB / "node_modules").is_dir(), reason="needs `npm ci` in examples/web"
)


@contextmanager
def served() -> Generator[str]:
    """The address of the page."""
    command = [sys.executable, str(WEB / "web.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"Open (\S+)", server.stdout.readline())
            assert found is not None
            yield found[1]
        finally:
            server.terminate()


def send(page: Page, text: str) -> None:
    page.until(IDLE)
    page.run("document.querySelector('#text').focus()")
    page.type(text)
    page.press(*ENTER)


def texts(page: Page, elements: str) -> list[str]:
    return page.run(f"[...document.querySelectorAll('{elements}')].map((each) => each.textContent)")


def test_a_user_chats_answers_a_question_sees_a_change_and_stops_a_turn(tmp_path: Path) -> None:
    with served() as address, page_in_browser(tmp_path / "profile") as page:
        page.open(address)
        page.until(IDLE)
        assert page.run("document.title") == "to-do"
        send(page, HOSTILE)
        page.until(f"{LAST}?.startsWith('You said')")
        assert texts(page, "#log > .user") == [HOSTILE]
        assert texts(page, "#log > .agent") == [f"You said: {HOSTILE}\n"]

        send(page, f"add {HOSTILE}")
        page.until("document.querySelector('.question button')")
        assert texts(page, ".question button") == ["Add it", "Leave it"]
        page.click(".question button")
        page.until(f"{LAST} === 'There are 3 things to do.\\n'")
        assert texts(page, ".call .status") == ["completed"]
        assert texts(page, ".diff > *") == ["/to-do.txt", f"+ {HOSTILE}"]
        page.picture(tmp_path / "page.png")

        send(page, "count")
        page.until(f"{LAST}?.startsWith('1 2 ')")
        page.click("#stop")
        page.until(f"{IDLE} && {LAST} === 'cancelled'")

        send(page, "add another")
        page.until("document.querySelector('.question button')")
        page.press(*ESCAPE)
        page.until(f"{IDLE} && {LAST} === 'cancelled'")
        assert texts(page, "#log > .question")[-1].endswith("withdrawn")

        # No text has become an element or a program.
        assert page.run("document.querySelectorAll('#log :is(img, script, b, a, iframe)').length") == 0
        assert page.run("document.title") == "to-do"
        assert page.errors == []
        with pytest.raises(AssertionError, match="TrustedHTML"):
            page.run("document.querySelector('#log').innerHTML = '<b>text</b>'")


def test_the_page_says_that_its_connection_has_ended(tmp_path: Path) -> None:
    with page_in_browser(tmp_path / "profile") as page:
        with served() as address:
            page.open(address)
            page.until(IDLE)
        page.until(f"{LAST}?.startsWith('The connection is closed')")
        assert page.run("document.querySelector('#send').disabled")
