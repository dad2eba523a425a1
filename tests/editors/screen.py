"""A program at a terminal of tmux: what its user types, and what the screen shows."""

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 30.0
COLUMNS, ROWS = 130, 45


class Screen:
    """A terminal with one program. The terminal's own process has none of `environment`, so that it is not counted."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self._socket = tempfile.mkdtemp() + "/tmux"
        variables = [f"{name}={value}" for name, value in environment.items()]
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", str(folder),
                   "exec " + shlex.join(["env", *variables, *command]))  # fmt: skip
        self._tmux("set-option", "-s", "escape-time", "0")

    def type(self, text: str) -> None:
        """Letters, as they are."""
        self._tmux("send-keys", "-l", "--", text)

    def enter(self, text: str) -> None:
        """Type something, and press Enter once it is to be seen."""
        self.type(text)
        self.shows(text)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Keys by their names: Enter, Escape, C-c, Down ..."""
        for key in keys:
            self._tmux("send-keys", "--", key)
            time.sleep(0.1)

    @property
    def text(self) -> str:
        """What is to be seen now; nothing once the program has ended."""
        done = self._tmux("capture-pane", "-p", check=False)
        return "\n".join(line.rstrip() for line in done.stdout.splitlines()).rstrip()

    def shows(self, *texts: str) -> str:
        """Wait until all of the texts are to be seen; the whole screen."""
        return self._until(lambda screen: all(text in screen for text in texts), f"waited for {texts}")

    def hides(self, *texts: str) -> str:
        """Wait until none of the texts is to be seen."""
        return self._until(lambda screen: not any(text in screen for text in texts), f"waited for the end of {texts}")

    def _until(self, seen, what: str) -> str:
        end = time.monotonic() + PATIENCE
        while not seen(screen := self.text):
            assert time.monotonic() < end, f"{what}, saw:\n{screen}"
            time.sleep(0.1)
        return screen

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""
        return self._tmux("has-session", check=False).returncode != 0

    def ends(self) -> None:
        """Wait until the program has ended."""
        end = time.monotonic() + PATIENCE
        while not self.ended:
            assert time.monotonic() < end, f"the program did not end, saw:\n{self.text}"
            time.sleep(0.1)

    def close(self) -> None:
        """End whatever still runs."""
        self._tmux("kill-server", check=False)
        Path(self._socket).unlink(missing_ok=True)
        Path(self._socket).parent.rmdir()

    def _tmux(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        return subprocess.run(
            ["tmux", "-S", self._socket, *arguments], env=env, capture_output=True, text=True, check=check
        )
