"""What a page is in a browser of some width, by a Chromium without its driver."""

import shutil
import subprocess
from pathlib import Path

import pytest

ARGUMENTS = ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "allow-file-access-from-files")
FRAME = """<!doctype html><title>?</title><body style="margin:0">
<iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe><script>
const look = page => {{ {look} }};
document.querySelector("iframe").onload = event => {{ document.title = look(event.target.contentDocument); }};
</script>"""


def shown(page: Path, width: int = 1400) -> str:
    """The page as its programs have made it, in HTML."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium here")
    command = [chromium, *(f"--{each}" for each in ARGUMENTS), f"--user-data-dir={page.with_name('profile')}"]
    # The time of the page runs as fast as it has nothing to do.
    command += [f"--window-size={width},900", "--virtual-time-budget=5000", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def seen(page: Path, width: int, look: str) -> str:
    """What `look`, the body of a function of the `page` in JavaScript, returns where the page is that wide."""
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(page=page.name, width=width, look=look), "utf-8")
    return shown(frame).partition("<title>")[2].partition("</title>")[0]
