"""Neovim with agentic.nvim: a chat and, below it, a buffer for the prompt."""

import json
import subprocess
from collections.abc import Mapping
from typing import ClassVar

from .editor import HERE, PLUGINS, Editor


class Agentic(Editor):
    """The keys are those of its defaults, and a few of ours for its commands."""

    name = "agentic.nvim"
    programs = ("nvim",)
    plugins = ("agentic.nvim",)
    shows: ClassVar[Mapping[str, str]] = {
        "connect": "the chat, ready",
        "stream": "as it comes",
        "thought": "as text",
        "edit, accept": "both texts side by side, and numbers",
        "edit, reject": "as failed; the turn continues",
        "edit, always": "not asked again",
        "Stop while it streams, then a prompt": "stopped; answered",
        "Stop in a tool, then a prompt": "stopped; answered",
        "Stop at a question, then a prompt": "stopped; answered",
        "modes and options": "the modes",
        "the agent fails": "that the agent's log says why",
        "the agent is killed": "nothing: it still waits",
        "quit while it streams": "no process left",
        "a command stopped, then an edit": "runs once; the edit is asked about",
    }

    @classmethod
    def version(cls) -> str:
        return subprocess.run(["nvim", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]

    def start(self) -> None:
        self.place.environment |= {"EDITORS_PLUGINS": str(PLUGINS), "EDITORS_AGENT": json.dumps(self.place.agent)}
        self.open(["nvim", "--clean", "-u", str(HERE / "agentic.lua"), str(self.place.notes)])
        self.screen.shows("THREE")
        self.screen.type(" a")
        self.ready()

    def prompt(self, text: str) -> None:
        self.screen.press("Escape", "i")
        self.screen.type(text)
        self.screen.shows(text)
        self.screen.press("Escape", "Enter")

    def answer(self, choice: str) -> None:
        self.screen.press("Escape", "C-w", "k")
        self.screen.type({"accept": "1", "always": "2", "reject": "3"}[choice])
        self.screen.press("C-w", "j")

    def stop(self) -> None:
        self.screen.press("Escape")
        self.screen.type(" x")

    def changes_settings(self) -> None:
        self.screen.press("Escape", "BTab")
        self.screen.shows("Loud mode")
        self.screen.press("2", "Enter")
        self.set()

    def quit(self) -> None:
        self.screen.press("Escape")
        self.screen.enter(":qa!")
        self.screen.ends()
