"""acpx, a client on the command line: each prompt is a command in a shell."""

import os
import shlex
import subprocess
from collections.abc import Mapping
from typing import ClassVar

from .editor import Editor, eventually


class Acpx(Editor):
    """Edits and commands go by `exec`, since only that asks at the terminal; it makes a session of its own."""

    name = "acpx"
    programs = ("acpx",)
    shows: ClassVar[Mapping[str, str]] = {
        "connect": "the session's id",
        "stream": "as it comes",
        "thought": "under [thinking]",
        "edit, accept": "the title; then all that will be written",
        "edit, reject": "as failed; the turn continues",
        "Stop while it streams, then a prompt": "stopped; answered",
        "Stop in a tool, then a prompt": "stopped; answered",
        "modes and options": "what was set",
        "plan": "under [plan]",
        "usage": "nothing",
        "subagent": "the call, with its messages",
        "quit, start, load or resume": "the session resumed",
        "the agent fails": "that the agent's log says why",
        "the agent is killed": "that it has disconnected",
        "quit while it streams": "no process left",
    }

    @classmethod
    def version(cls) -> str:
        return subprocess.run(["acpx", "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def start(self) -> None:
        aliases = self.place.home / "aliases"
        command = shlex.join(["acpx", "--ttl", "1", "--agent", shlex.join(self.place.agent)])
        aliases.write_text(f"alias acpx={shlex.quote(command)}\n")
        self.place.environment |= {"PS1": "$ ", "ENV": str(aliases)}
        self.open(["sh"])
        self.screen.shows("$")
        self.run("acpx sessions ensure")
        self.screen.shows("sess_")

    def ready(self) -> None:
        self.screen.shows("sess_")

    def run(self, line: str) -> None:
        """At an empty screen."""
        self.screen.enter(line)

    def prompt(self, text: str) -> None:
        self.run(f"clear; acpx {'exec' if text.startswith('change') else 'prompt'} '{text}'")

    def answer(self, choice: str) -> None:
        self.screen.shows("Allow Change TWO to zwei [edit]? (y/N)")
        self.screen.enter("y" if choice == "accept" else "n")
        if choice == "accept":
            self.screen.shows("Allow write? (y/N)")
            self.screen.press("y", "Enter")

    def stop(self) -> None:
        self.screen.press("C-c")  # it ends the command and leaves the turn
        self.run("clear; acpx cancel")
        self.screen.shows("cancel")

    def changes_settings(self) -> None:
        self.run("clear; acpx set-mode loud; acpx set voice high")
        self.screen.shows("mode set: loud", "voice=high")

    def finds_again(self) -> None:
        self.start()
        self.prompt("before")

    def leave(self) -> None:
        self.screen.close()
        command = ["acpx", "--agent", shlex.join(self.place.agent), "sessions", "close"]
        environment = {**os.environ, **self.place.environment}
        subprocess.run(command, cwd=self.place.project, env=environment, capture_output=True, check=False)

    def quit(self) -> None:
        self.screen.press("C-c")
        self.run("clear; acpx cancel")
        self.screen.shows("cancel")
        self.screen.press("C-d")
        self.screen.ends()
        eventually(lambda: not self.place.processes(), "the process that keeps the agent has ended")
