"""What a page is in a browser of some width, by a Chromium without its driver."""

import shutil
import subprocess
from pathlib import Path

import pytest

ARGUMENTS = ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "allow-file-access-from-files")
FRAME = """<!doctype html><title>?</title><body style="margin:0">
<iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe><script>
const look = page => {{ {look} }};
document.querySelector("iframe").onload = event => {{ document.title = ":" + look(event.target.contentDocument); }};
</script>"""


_LOOKS = 8


def shown(page: Path, ready: str, width: int = 1400) -> str:
    """The page as its programs have made it, in HTML.

    `ready`: what it has once they have run. On a busy machine Chromium may write the page before; then it is opened
    again.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium here")
    command = [chromium, *(f"--{each}" for each in ARGUMENTS), f"--user-data-dir={page.with_name('profile')}"]
    # The time of the page runs as fast as it has nothing to do.
    command += [f"--window-size={width},900", "--virtual-time-budget=5000", "--dump-dom", page.as_uri()]
    dump = ""
    for _ in range(_LOOKS):
        dump = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        if ready in dump:
            break
    return dump


def seen(page: Path, width: int, look: str) -> str:
    """What `look`, the body of a function of the `page` in JavaScript, returns where the page is that wide."""
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(page=page.name, width=width, look=look), "utf-8")
    title = shown(frame, ready="<title>:").partition("<title>:")[2]
    return title.partition("</title>")[0]
