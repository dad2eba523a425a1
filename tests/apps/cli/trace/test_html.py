"""The page of a conversation: what stands in it, and how it works in a browser.

The tests in a browser need Chromium and its driver (on Debian: chromium and chromium-driver), and are skipped without.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from acp_server.apps.cli import main
from acp_server.apps.cli.trace import export

from .recordings import Recording, cancelled_turn

PAGE_PARTS = Path(export.__file__).with_name("page")
HOSTILE = (
    "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"><!-- {{script}} $&"
)


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("there is no Chromium with its driver here")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # Without a sandbox where it cannot be had: for root, and in containers.
    for argument in "headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1500,900":
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, Service(chromedriver))
    yield browser
    browser.quit()


class Page:
    """A page that is open in a browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def until(self, holds: Callable[[], Any]) -> None:
        WebDriverWait(self.driver, 10, 0.02, (StaleElementReferenceException,)).until(lambda _: holds())

    def press(self, *keys: str) -> None:
        self.one("#tree").send_keys(*keys)

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def errors(self) -> list[Any]:
        log: list[Any] = self.driver.get_log("browser")
        return [line for line in log if line["level"] == "SEVERE"]


@pytest.fixture
def shown(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[Callable[[Recording], Page]]:
    page = Page(driver)

    def show(talk: Recording) -> Page:
        path = tmp_path / "page.html"
        assert main(["trace", str(talk.write(tmp_path / "recording")), "--html", str(path)]) == 0
        driver.get(path.as_uri())
        page.until(lambda: page.all(".row"))
        return page

    yield show
    assert page.errors() == []


def written(talk: Recording, folder: Path, *options: str) -> str:
    assert main(["trace", str(talk.write(folder / "recording")), "--html", str(folder / "page.html"), *options]) == 0
    return (folder / "page.html").read_text("utf-8")


def data(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


# -- what stands in it


def test_nothing_that_a_recording_says_is_markup(tmp_path: Path) -> None:
    talk = Recording()
    talk.prompt(1, HOSTILE, session=HOSTILE)
    talk.ask("out", HOSTILE, HOSTILE)
    talk.tool(HOSTILE, "in_progress", title=HOSTILE)
    page = written(talk, tmp_path)
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<img" not in page
    assert HOSTILE in data(page)["spans"]["title"]
    assert HOSTILE in json.loads(data(page)["messages"]["text"][0])["params"]["prompt"][0]["text"]


def test_the_name_of_a_file_is_not_markup_either(tmp_path: Path) -> None:
    talk = cancelled_turn().write(tmp_path / "a<b>&amp;")
    assert main(["trace", str(talk), "--html", str(tmp_path / "page.html")]) == 0
    assert "<h1>a&lt;b&gt;&amp;amp;</h1>" in (tmp_path / "page.html").read_text()


def test_the_page_needs_no_other_place(tmp_path: Path) -> None:
    page = written(cancelled_turn(), tmp_path)
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=|url\(|@import|https?:", page)


def test_the_script_of_the_page_makes_text_of_text() -> None:
    for part in PAGE_PARTS.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", part.read_text())


def test_a_long_message_is_cut_unless_it_is_wanted_in_full(tmp_path: Path) -> None:
    talk = Recording()
    talk.prompt(1, "x" * 100_000)
    (text,) = data(written(talk, tmp_path))["messages"]["text"]
    assert len(text) < 70_000
    assert re.search(r"x … 34,\d\d\d more characters are in the recording$", text)
    (whole,) = data(written(talk, tmp_path, "--full"))["messages"]["text"]
    assert "x" * 100_000 in whole


def test_a_page_that_cannot_be_written_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = cancelled_turn().write(tmp_path / "recording")
    assert main(["trace", str(talk), "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert capsys.readouterr().err.startswith(f"acp-server: cannot write {tmp_path}/none/page.html: ")


# -- how it works


def test_each_span_has_its_row_and_its_bar(shown: Callable[[Recording], Page]) -> None:
    page = shown(cancelled_turn())
    assert len(page.all(".row")) == len(page.all(".bar")) == 7
    assert [bar.get_attribute("class") for bar in page.all(".bar.cancelled")] == [
        "bar turn cancelled",
        "bar tool cancelled",
        "bar request cancelled",
    ]
    assert page.one("#summary").text.endswith("33 messages · 1 turn · 2 cancels")


def test_a_cancel_is_found_and_shows_its_message(shown: Callable[[Recording], Page]) -> None:
    page = shown(cancelled_turn())
    assert [cut.text for cut in page.all(".cut")] == ["cancel: 4 ms to the answer", "withdrawn: 1 ms to the answer"]
    # What was open goes on behind the cut: the turn, its tool, its request.
    assert len(page.all(".after")) == 3
    page.one(".cut").click()
    page.until(lambda: '"session/cancel"' in page.one("#text").text)
    assert page.one(".row[aria-selected=true]").get_attribute("class") == "row turn"
    page.press("c")
    page.until(lambda: '"$/cancel_request"' in page.one("#text").text)


def test_the_line_of_a_cancel_goes_through_all_that_it_reached(shown: Callable[[Recording], Page]) -> None:
    page = shown(cancelled_turn())
    orange = page.run(
        """
        const box = overlay.getBoundingClientRect(), fine = overlay.width / box.width;
        const x = Math.round((labelWidth() + timeline.x(cuts[0].t)) * fine);
        const rows = cuts[0].reached.map((span) => timeline.place[span]);
        const pen = overlay.getContext('2d');
        return [rows[0] - 1, ...rows, rows[rows.length - 1] + 1].map((row) => {
          const pixels = pen.getImageData(x - 1, Math.round((row * HEIGHT + 8) * fine), 3, 1).data;
          return [0, 4, 8].some((at) => pixels[at + 3] > 60);
        });
        """
    )
    assert orange == [False, True, True, True, False]


def test_search_finds_a_word_in_a_message_and_goes_there(shown: Callable[[Recording], Page]) -> None:
    talk = cancelled_turn()
    talk.prompt(2, "a Needle in the hay")
    talk.answer("out", 2, {"stopReason": "end_turn"})
    page = shown(talk)
    page.press("/")
    page.driver.switch_to.active_element.send_keys("needle")
    page.until(lambda: page.one("#hits").text == "0 of 1")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: "a Needle in the hay" in page.one("#text").text)
    page.until(lambda: page.one(".row[aria-selected=true] .name").text.startswith("→#2 prompt: a Needle in the hay"))
    page.driver.switch_to.active_element.send_keys("x")
    page.until(lambda: page.one("#hits").text == "nothing found")


def test_the_keyboard_opens_and_closes_and_zooms(shown: Callable[[Recording], Page]) -> None:
    page = shown(cancelled_turn())
    page.press(Keys.DOWN, Keys.LEFT)
    page.until(lambda: len(page.all(".row")) == 2)
    page.press(Keys.RIGHT, Keys.END, Keys.UP)
    page.until(lambda: "terminal/create" in page.one(".row[aria-selected=true]").text)
    width = page.one(".row[aria-selected=true] .bar").size["width"]
    page.press(Keys.ENTER)
    page.until(lambda: page.one(".row[aria-selected=true] .bar").size["width"] > 1.2 * width)
    page.press("0")
    page.until(lambda: page.one(".row[aria-selected=true] .bar").size["width"] == width)


def test_anomalies_are_listed_and_lead_to_where_they_are(shown: Callable[[Recording], Page]) -> None:
    talk = cancelled_turn()
    talk.prompt(2)
    page = shown(talk)
    assert page.one("#tab-anomalies").text == "1 anomaly"
    page.until(lambda: page.all("#anomalies .item"))
    page.one("#anomalies .item").click()
    page.until(lambda: "prompt: hello" in page.one(".row[aria-selected=true]").text)
    assert "! never answered" in page.one(".row[aria-selected=true]").text


def test_it_can_be_dark_and_light(shown: Callable[[Recording], Page]) -> None:
    page = shown(cancelled_turn())

    def back() -> str:
        return page.one("body").value_of_css_property("background-color")

    before = back()
    page.press("t")
    page.until(lambda: back() != before)
    page.press("t")
    page.until(lambda: back() == before)


def test_a_hostile_recording_is_only_text(shown: Callable[[Recording], Page]) -> None:
    talk = Recording()
    talk.prompt(1, HOSTILE, session=HOSTILE)
    talk.tool(HOSTILE, "in_progress", title=HOSTILE)
    page = shown(talk)
    page.press(Keys.END, "a")
    page.until(lambda: "onerror" in page.one("#text").text)
    assert page.driver.title == "recording - trace"
    assert page.all("img") == []


def test_a_hundred_thousand_messages_are_there_within_three_seconds(shown: Callable[[Recording], Page]) -> None:
    talk = Recording()
    for turn in range(2_500):
        talk.prompt(turn, f"number {turn}", session=f"s{turn % 50}")
        for _ in range(18):
            talk.update(session=f"s{turn % 50}", content={"type": "text", "text": "some words " * 5})
        for call in range(10):
            talk.ask("out", call, "fs/read_text_file", sessionId=f"s{turn % 50}", path="/a/file.py")
            talk.answer("in", call, {"content": "text"})
        talk.answer("out", turn, {"stopReason": "end_turn"})
    assert len(talk.entries) == 100_000
    page = shown(talk)
    # As the browser tells it: from the beginning to the first frame.
    loaded = page.run("return performance.getEntriesByType('paint').pop().startTime / 1000")
    assert loaded < 3
    assert len(page.all(".row")) < 100
    begin = time.perf_counter()
    page.press("/")
    page.driver.switch_to.active_element.send_keys("number 2499")
    page.until(lambda: page.one("#hits").text == "0 of 1")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: "number 2499" in page.one("#text").text)
    assert time.perf_counter() - begin < 20
    assert "number 2499" in page.one(".row[aria-selected=true]").text


def test_the_page_is_part_of_the_package() -> None:
    assert {part.name for part in PAGE_PARTS.iterdir()} >= {"page.html", "page.css", "main.js"}
    assert os.access(PAGE_PARTS / "page.html", os.R_OK)
