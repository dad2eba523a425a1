"""What each editor is driven with: a project, an agent that records what is said, a screen, and the user's actions."""

import os
import shutil
import signal
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import psutil

from .screen import PATIENCE, Screen
from .wire import Wire

HERE = Path(__file__).parent
COMMAND = str(Path(sys.executable).with_name("acp-server"))
PLUGINS = Path(os.environ.get("EDITORS_PLUGINS") or HERE.parents[1] / "build" / "editors")
"""Where the plugins are, each in a folder of its own name."""
_MARK = "ACP_EDITORS_RUN"
NOTES = "ONE\nTWO\nTHREE\n"


class Place:
    """One conversation's folder: the project, the user's home, and what was said."""

    def __init__(self, folder: Path, *, built_in: bool = False) -> None:
        self.project = folder / "project"
        self.home = folder / "home"
        self.project.mkdir(parents=True)
        self.home.mkdir()
        self.notes = self.project / "notes.txt"
        self.notes.write_text(NOTES)
        self.wire = Wire(folder / "wire.ndjson")
        target = [] if built_in else [str(HERE / "author_agent.py")]
        self.agent = [COMMAND, "serve", "--store", str(folder / "sessions.db"), "--log-file", str(folder / "log"),
                      "--record", str(folder / "wire.ndjson"), *target]  # fmt: skip
        self.environment = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            _MARK: uuid.uuid4().hex,
        }
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            self.environment[name] = str(self.home / name.lower())

    def processes(self) -> list[psutil.Process]:
        """All that was started here and lives."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self.environment[_MARK]:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def agents(self) -> list[psutil.Process]:
        """The processes of the agent."""
        return [process for process in self.processes() if "serve" in process.cmdline()[1:4]]

    def kill_agent(self) -> None:
        """As the kernel does when memory runs out."""
        (agent,) = self.agents()
        agent.send_signal(signal.SIGKILL)


class Editor(ABC):
    """An editor and its user. A subclass says which keys do what, and what is to be seen then."""

    name: ClassVar[str]
    programs: ClassVar[Sequence[str]]
    plugins: ClassVar[Sequence[str]] = ()
    shows: ClassVar[Mapping[str, str]]
    """For each step, in a few words, what the user sees. A step that is missing cannot be done there."""

    adds_lines: ClassVar[bool] = False
    """Whether it adds an empty line to a file that is open in it, whenever an agent writes it."""

    screen: Screen

    def __init__(self, place: Place) -> None:
        self.place = place
        self.wire = place.wire

    @classmethod
    def missing(cls) -> list[str]:
        """What it needs and is not here."""
        programs = [program for program in ("tmux", *cls.programs) if not shutil.which(program)]
        return programs + [str(PLUGINS / plugin) for plugin in cls.plugins if not (PLUGINS / plugin).is_dir()]

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """Of the program and its plugins."""

    @abstractmethod
    def start(self) -> None:
        """Start it with a new session, until a prompt can be typed."""

    @abstractmethod
    def prompt(self, text: str) -> None:
        """Send a prompt."""

    @abstractmethod
    def answer(self, choice: str) -> None:
        """Answer the question on the screen: `accept`, `reject`, `always` or `dismiss`."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the turn."""

    def sees_diff(self) -> str:
        """Wait for a question that shows what will be changed."""
        return self.screen.shows("TWO", "zwei")

    def changes_settings(self) -> None:
        """Change a mode and an option, as far as there are keys for it."""
        raise NotImplementedError

    def finds_again(self) -> None:
        """After another start, load or resume the session of before."""
        raise NotImplementedError

    @abstractmethod
    def quit(self) -> None:
        """Quit it, whatever it does."""

    def leave(self) -> None:
        """Close the terminal, whatever is still open in it."""
        self.screen.close()

    def open(self, command: Sequence[str]) -> None:
        """Start the program at a terminal."""
        self.screen = Screen(command, self.place.environment, self.place.project)

    def ready(self) -> None:
        """Wait until the agent has opened a session."""
        self.answered("session/new", "session/load", "session/resume")

    def set(self) -> None:
        """Wait until the agent has taken a mode or an option."""
        self.answered("session/set_mode", "session/set_config_option")

    def answered(self, *methods: str) -> None:
        """Wait until the agent has answered one of these, and not with an error."""
        self.wire.until(lambda: any("result" in said for each in methods for said in self.wire.answers(each)), methods)


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.05)
