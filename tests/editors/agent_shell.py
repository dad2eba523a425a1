"""Emacs with agent-shell: the chat is a shell buffer."""

import json
import re
import subprocess
import time
from collections.abc import Mapping
from typing import ClassVar

from .editor import HERE, PLUGINS, Editor

_PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"


class AgentShell(Editor):
    """The keys are those of its defaults."""

    name = "agent-shell"
    programs = ("emacs",)
    plugins = ("agent-shell", "acp.el", "shell-maker")
    shows: ClassVar[Mapping[str, str]] = {
        "connect": "the shell, ready",
        "stream": "as it comes",
        "thought": "folded",
        "edit, accept": "the number of lines; the diff by a key",
        "edit, always": "not asked again",
        "question dismissed": "the turn ends as stopped",
        "Stop while it streams, then a prompt": "stopped; answered",
        "Stop in a tool, then a prompt": "stopped; answered",
        "Stop at a question, then a prompt": "stopped; answered",
        "modes and options": "the modes; the options by another key",
        "plan": "in the chat",
        "usage": "tokens, size and percent at the top",
        "subagent": "the call, folded",
        "quit, start, load or resume": "the session resumed, by its title",
        "the agent fails": "that the agent's log says why",
        "the agent is killed": "that its process has ended",
        "quit while it streams": "no process left",
        "a command stopped, then an edit": "runs once; the edit is asked about",
    }
    strategy = "new"

    @classmethod
    def version(cls) -> str:
        said = subprocess.run(["emacs", "--version"], capture_output=True, text=True, check=True).stdout
        (version,) = re.findall(r"^;; Version: (.+)", (PLUGINS / "agent-shell" / "agent-shell.el").read_text(), re.M)
        return f"{version}, {said.splitlines()[0]}"

    def start(self) -> None:
        self.place.environment |= {
            "EDITORS_PLUGINS": str(PLUGINS),
            "EDITORS_AGENT": json.dumps(self.place.agent),
            "EDITORS_STRATEGY": self.strategy,
        }
        self.open(["emacs", "-nw", "-Q", "-l", str(HERE / "agent_shell.el")])
        self.screen.shows("Available modes", _PROMPT)
        self.ready()

    def prompt(self, text: str) -> None:
        self.screen.shows(_PROMPT)
        self.screen.press("M->")
        self.screen.enter(text)

    def sees_diff(self) -> str:
        self.screen.shows("View (v)", "+1", "-1")
        self.screen.type("v")
        seen = self.screen.shows("TWO", "zwei", "THREE")
        self.screen.press("C-x", "b", "Enter")
        self.screen.shows("View (v)")
        return seen

    def answer(self, choice: str) -> None:
        self.screen.shows("Tool Permission")
        time.sleep(1)  # the keys are those of the buttons, to which the cursor is moved
        self.screen.press(*{"accept": ["y"], "always": ["!"], "dismiss": ["C-c", "C-c"]}[choice])

    def changes_settings(self) -> None:
        self.screen.press("C-c", "C-m")
        self.screen.shows("Set session mode")
        self.screen.enter("Loud mode")
        self.set()

    def finds_again(self) -> None:
        self.strategy = "latest"
        self.start()

    def stop(self) -> None:
        self.screen.press("C-c", "C-c")

    def quit(self) -> None:
        self.screen.press("C-x", "C-c")
        self.screen.ends()
