"""The built-in agent as an editor starts it: a process, a real tree, and nothing on standard error."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.processes.driver import Driven, started

from .talk import FINAL, HIDDEN, ROOT
from .trees import plant

SCRIPT = str(Path(sys.executable).with_name("acp-server"))
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request"])

FILES, LINES = 400, 60
LINE = "needle " * 30 + "\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More hits than all the pipes and buffers between an agent and its client can hold."""
    folder = tmp_path_factory.mktemp("large")
    plant(folder / HIDDEN, {f"src/{n:04}.txt": LINE * LINES for n in range(FILES)} | {"huge.txt": "line\n" * 2_000_000})
    (folder / "project").symlink_to(folder / HIDDEN, target_is_directory=True)
    return folder / "project"


class Talker:
    """A client that reads when it wants to."""

    def __init__(self, agent: Driven, cwd: Path) -> None:
        self.agent = agent
        agent.call(0, "initialize", protocolVersion=1)
        self.session = agent.call(1, "session/new", cwd=str(cwd), mcpServers=[])["sessionId"]
        self._id = 1
        self._passed_over: list[dict[str, Any]] = []

    def prompt(self, text: str) -> int:
        self._id += 1
        self.agent.request(self._id, "session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])
        return self._id

    def cancel(self, by: str, id: int) -> None:
        if by == "session":
            self.agent.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session}})
        else:
            self.agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})

    def until(self, word: str) -> None:
        """Read until a message has this in it."""
        while word not in str(self._passed_over[-1:]):
            self._passed_over.append(self.agent.next())

    def told(self, id: int) -> tuple[Any, str, dict[str, Any]]:
        """The answer, what was said until then, and the tool call as it was in the end."""
        text, call = "", dict[str, Any]()
        passed_over, self._passed_over = self._passed_over[::-1], []
        while (message := passed_over.pop() if passed_over else self.agent.next()).get("id") != id:
            update = message["params"]["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                text += update["content"]["text"]
            elif update["sessionUpdate"].startswith("tool_call"):
                call |= update
        return message["result"], text, call

    def finish(self) -> None:
        """Nothing is left to be said, and nothing was wrong."""
        self.agent.close_input()
        assert self.agent.rest() == []
        assert self.agent.exit_code() == 0
        assert self.agent.stderr == ""


@pytest.fixture(params=["asyncio", "trio"])
def talker(request: pytest.FixtureRequest, project: Path) -> Iterator[Talker]:
    with started([SCRIPT, "--backend", request.param]) as agent:
        yield Talker(agent, project)


@BOTH_CANCELS
@pytest.mark.behaviour("F1", "F5", "K7")
def test_a_search_that_the_client_does_not_read_is_cancelled_and_ends_with_partial_results(
    talker: Talker, by: str
) -> None:
    id = talker.prompt("/search needle")
    talker.until("locations")
    # From here on nothing is read until the cancel is written: the search cannot have come to its end.
    talker.cancel(by, id)
    answer, text, call = talker.told(id)
    assert answer == {"stopReason": "cancelled"}
    assert text.splitlines()[-1].startswith("Partial results: ")
    assert call["status"] == "failed"
    assert call["rawOutput"]["partial"] is True
    shown = sum(":1: needle" in line for line in text.splitlines())
    assert 0 < shown == call["rawOutput"]["hits"] < FILES * LINES
    answer, text, call = talker.told(talker.prompt("/search needle src/0000.txt"))
    assert answer == {"stopReason": "end_turn"}
    assert text.endswith(f"{LINES} hits in 1 file.\n")
    assert call["status"] in FINAL
    talker.finish()


@BOTH_CANCELS
def test_a_cancel_right_behind_each_command_ends_it_and_the_next_one_works(talker: Talker, by: str) -> None:
    for command in ("/scan", "/read huge.txt:1999999", "/search absent"):
        id = talker.prompt(command)
        talker.until("in_progress")
        talker.cancel(by, id)
        answer, text, call = talker.told(id)
        assert answer["stopReason"] in ("cancelled", "end_turn")
        if answer["stopReason"] == "cancelled":
            assert call["status"] == "failed"
            # The one line to be read may have been shown already, and all files may have been searched.
            stopped = ("Partial results: ", "It was stopped before", "\nline\n", " in 401 files.")
            assert any(each in text for each in stopped), text
    answer, _, _ = talker.told(talker.prompt("/help"))
    assert answer == {"stopReason": "end_turn"}
    talker.finish()


def test_what_is_asked_wrongly_is_answered_and_never_a_fault(talker: Talker, project: Path) -> None:
    for command in (
        "/help",
        "/nonsense",
        "hello",
        "/search (",
        "/search x ../..",
        "/read ../../etc/passwd",
        "/read src",
    ):
        answer, text, _ = talker.told(talker.prompt(command))
        assert answer == {"stopReason": "end_turn"}
        assert text
        assert HIDDEN not in text
        assert ROOT not in text
    talker.agent.request(90, "session/new", cwd=str(project / "huge.txt"), mcpServers=[])
    assert talker.agent.answer(90)["error"]["data"] == {"problems": [{"path": "cwd", "message": "is not a directory"}]}
    talker.finish()


@BACKENDS
def test_a_client_that_vanishes_in_the_middle_of_a_search_leaves_no_traceback_behind(
    project: Path, backend: str
) -> None:
    with started([SCRIPT, "--backend", backend]) as agent:
        talker = Talker(agent, project)
        talker.prompt("/search needle")
        talker.until("locations")
        agent.close_output()
        assert agent.exit_code() == 0
        assert agent.stderr == ""
