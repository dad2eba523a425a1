"""Toad, a terminal of its own for agents."""

import shlex
import subprocess
import time
from collections.abc import Mapping
from typing import ClassVar

from .editor import Editor


class Toad(Editor):
    """Its sessions are those that it has itself written down."""

    name = "Toad"
    programs = ("toad",)
    shows: ClassVar[Mapping[str, str]] = {
        "connect": "the prompt, ready",
        "stream": "as it comes",
        "thought": "above the answer",
        "edit, accept": "both texts side by side, and keys",
        "edit, reject": "as failed; the turn continues",
        "edit, always": "not asked again",
        "Stop while it streams, then a prompt": "stopped; answered",
        "Stop in a tool, then a prompt": "stopped; answered",
        "modes and options": "the modes",
        "plan": "in the chat and at the side",
        "usage": "nothing",
        "subagent": "the call, by its title",
        "the agent fails": "that the prompt could not be sent",
        "the agent is killed": "its exit code",
        "quit while it streams": "no process left",
    }

    @classmethod
    def version(cls) -> str:
        return subprocess.run(["toad", "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def start(self) -> None:
        self.open(["toad", "acp", shlex.join(self.place.agent), str(self.place.project)])
        self.ready()
        self.screen.hides("Initializing")

    def prompt(self, text: str) -> None:
        time.sleep(1)  # as below
        if text.startswith("/"):
            command, _, text = text.partition(" ")
            self.screen.enter(command)  # it offers the commands; the first one that fits is taken
            time.sleep(1)
        self.screen.enter(text)
        self.wire.until(lambda: self.wire.calls("session/prompt"), "the prompt")

    def answer(self, choice: str) -> None:
        time.sleep(1)  # it takes no keys while the question slides in
        self.screen.press({"accept": "a", "always": "A", "reject": "r", "dismiss": "Escape"}[choice])

    def stop(self) -> None:
        self.screen.press("Escape", "Escape")

    def changes_settings(self) -> None:
        self.screen.press("C-o")
        self.screen.shows("Loud mode")
        self.screen.press("Down", "Enter")
        self.wire.until(lambda: self.wire.answers("session/set_mode"), "the mode")
        self.screen.press("Tab")

    def quit(self) -> None:
        self.screen.press("C-q")
        self.screen.ends()
