"""A page in a real Chromium, driven by its DevTools protocol."""

import itertools
import json
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.chromium import ARGUMENTS

PATIENCE = 60.0
UNTIL = """new Promise((resolve, reject) => {
  const found = () => { const value = %s; if (value) { watch.disconnect(); resolve(value); } };
  const watch = new MutationObserver(found);
  watch.observe(document, {attributes: true, characterData: true, childList: true, subtree: true});
  found();
})"""


class Page:
    """One page. `errors`: the uncaught errors of its programs, and what it logged as errors."""

    def __init__(self, devtools: Any) -> None:
        self._devtools = devtools
        self._ids = itertools.count(1)
        self._session: str | None = None
        self._is_loaded = False
        self.errors: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Load a page, with the modules that it imports."""
        self._is_loaded = False
        self._call("Page.navigate", url=url)
        while not self._is_loaded:
            self._heard(json.loads(self._devtools.recv(PATIENCE)))

    def run(self, program: str) -> Any:
        """The value of an expression in JavaScript, once its promise is kept."""
        done = self._call("Runtime.evaluate", expression=program, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, program: str) -> Any:
        """The value of an expression, once the document makes it true."""
        return self.run(UNTIL % program)

    def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        self._call("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            more = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def click(self, element: str) -> None:
        """Click on an element, a CSS selector, as the mouse does."""
        look = "(({x, y, width, height}) => [x + width / 2, y + height / 2])(document.querySelector(%s)%s)"
        x, y = self.run(look % (json.dumps(element), ".getBoundingClientRect()"))
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path) -> None:
        path.write_bytes(b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **params: Any) -> Any:
        id = next(self._ids)
        session = {} if self._session is None else {"sessionId": self._session}
        self._devtools.send(json.dumps({"id": id, "method": method, "params": params, **session}))
        while (message := json.loads(self._devtools.recv(PATIENCE))).get("id") != id:
            self._heard(message)
        assert "error" not in message, (method, message["error"])
        return message["result"]

    def _heard(self, message: Any) -> None:
        params = message["params"]
        self._is_loaded = self._is_loaded or message["method"] == "Page.loadEventFired"
        if message["method"] == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif message["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")


@contextmanager
def page_in_browser(profile: Path) -> Generator[Page]:
    """An empty page of a browser, which ends with the block. Its settings are in the folder `profile`."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium here")
    command = [chromium, *(f"--{each}" for each in ARGUMENTS), f"--user-data-dir={profile}"]
    command += ["--remote-debugging-port=0", "--window-size=900,900", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0) as browser:
        try:
            assert browser.stderr is not None
            found = next(filter(None, (re.search(r"ws://\S+", line) for line in browser.stderr)))
            with connect(found[0], max_size=None) as devtools:
                yield Page(devtools)
                devtools.send(json.dumps({"id": 0, "method": "Browser.close"}))
                browser.wait(PATIENCE)
        finally:
            browser.kill()
