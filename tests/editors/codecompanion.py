"""Neovim with CodeCompanion: the chat is a buffer."""

import json
import subprocess
from collections.abc import Mapping
from typing import ClassVar

from .editor import HERE, PLUGINS, Editor


class CodeCompanion(Editor):
    """The keys are those of its defaults."""

    name = "CodeCompanion"
    programs = ("nvim",)
    plugins = ("codecompanion.nvim", "plenary.nvim")
    adds_lines = True
    shows: ClassVar[Mapping[str, str]] = {
        "connect": "the chat, ready",
        "stream": "as it comes",
        "thought": "folded, under Reasoning",
        "edit, accept": "the diff in the chat, and keys",
        "edit, reject": "as refused; the turn continues",
        "edit, always": "not asked again",
        "question dismissed": "the call as cancelled; the turn continues",
        "Stop while it streams, then a prompt": "stopped; answered",
        "Stop in a tool, then a prompt": "stopped; answered",
        "Stop at a question, then a prompt": "stopped; answered",
        "modes and options": "a list of all options, the mode among them",
        "plan": "nothing",
        "usage": "the tokens, at the next prompt",
        "subagent": "the call, by its title",
        "quit, start, load or resume": "the list with its title; the messages",
        "the agent fails": "that the agent's log says why",
        "the agent is killed": "that the turn was cancelled",
        "quit while it streams": "no process left",
        "a command stopped, then an edit": "runs once; the edit is asked about",
    }

    @classmethod
    def version(cls) -> str:
        first = subprocess.run(["nvim", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        return f"{(PLUGINS / 'codecompanion.nvim' / 'version.txt').read_text().strip()}, {first}"

    def start(self) -> None:
        self.place.environment |= {"EDITORS_PLUGINS": str(PLUGINS), "EDITORS_AGENT": json.dumps(self.place.agent)}
        self.open(["nvim", "--clean", "-u", str(HERE / "codecompanion.lua"), str(self.place.notes)])
        self.screen.shows("THREE")
        self.screen.enter(":CodeCompanionChat")
        self.screen.shows("## Me")
        self.ready()

    def prompt(self, text: str) -> None:
        self.screen.press("Escape")
        self.screen.type("Go")
        self.screen.type(text)
        self.screen.shows(text)
        self.screen.press("Escape", "Enter")

    def answer(self, choice: str) -> None:
        self.screen.type({"accept": "g2", "always": "g1", "reject": "g3", "dismiss": "g4"}[choice])

    def stop(self) -> None:
        self.screen.press("Escape", "q")

    def changes_settings(self) -> None:
        self.screen.press("Escape")
        self.screen.enter(":Settings")
        self.screen.shows("Voice", "Brief", "Mode")
        self.screen.press("3", "Enter")
        self.screen.shows("Loud mode")
        self.screen.press("2", "Enter")
        self.wire.until(lambda: self.wire.answers("session/set_config_option"), "the option")

    def finds_again(self) -> None:
        self.start()
        self.screen.press("Escape")
        self.screen.enter(":Resume")
        self.screen.shows("think")
        self.screen.press("2", "Enter")  # the first is the new session itself

    def quit(self) -> None:
        self.screen.press("Escape")
        self.screen.enter(":qa!")
        self.screen.ends()
