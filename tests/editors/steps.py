"""The steps of a conversation, each of them in an editor that has just been started."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from .editor import NOTES, Editor, eventually

CHANGED: Final = NOTES.replace("TWO", "zwei")
SOON: Final = 1.0
"""Seconds within which a Stop is answered, on a machine with other work."""
NOTHING: Final = "nothing"
"""Of a step whose updates an editor does not draw."""
_A_LOOK: Final = 2.0
"""Seconds that an editor has to say what it says of its own accord, before the screen is kept."""


def connect(editor: Editor) -> None:
    """A session is there."""
    editor.ready()


def stream(editor: Editor) -> None:
    """What the agent says is seen while it says it."""
    editor.prompt("stream")
    editor.screen.shows("item-2", "item-3")
    assert not editor.wire.answers("session/prompt")


def thought(editor: Editor) -> None:
    """The answer, and the thought before it."""
    editor.prompt("think")
    assert editor.wire.prompt_ends() == "end_turn"
    editor.screen.shows("forty-two")
    assert editor.wire.updates("agent_thought_chunk")


def asked(editor: Editor) -> None:
    """Have the agent ask about an edit, and see it."""
    editor.prompt("change TWO zwei")
    editor.wire.until(lambda: editor.wire.calls("session/request_permission"), "a question")
    editor.sees_diff()
    assert editor.place.notes.read_text() == NOTES


def written(editor: Editor, text: str) -> None:
    """The notes are so by now, but for a line that the editor itself adds."""
    found = editor.place.notes.read_text()
    if editor.adds_lines:
        found, text = found.rstrip("\n"), text.rstrip("\n")
    assert found == text, found


def accept(editor: Editor) -> None:
    """Allow one edit. The file is written as a whole."""
    asked(editor)
    editor.answer("accept")
    assert editor.wire.prompt_ends() == "end_turn"
    assert editor.wire.outcome().startswith("selected")
    written(editor, CHANGED)
    editor.screen.shows("completed")


def reject(editor: Editor) -> None:
    """Refuse it. Nothing is written, and the turn goes on."""
    asked(editor)
    editor.answer("reject")
    assert editor.wire.prompt_ends() == "end_turn"
    assert editor.wire.outcome().startswith("selected")
    assert editor.place.notes.read_text() == NOTES
    editor.screen.shows("rejected")


def always(editor: Editor) -> None:
    """Allow all of them. The next is not asked about."""
    asked(editor)
    editor.answer("always")
    assert editor.wire.prompt_ends() == "end_turn"
    editor.wire.forget()
    editor.prompt("change THREE drei")
    assert editor.wire.prompt_ends() == "end_turn"
    assert not editor.wire.calls("session/request_permission")
    written(editor, CHANGED.replace("THREE", "drei"))


def dismissed(editor: Editor) -> None:
    """Close the question without a choice. Nothing is written, and the agent is not stuck."""
    asked(editor)
    editor.answer("dismiss")
    assert editor.wire.prompt_ends() in ("end_turn", "cancelled")
    assert editor.place.notes.read_text() == NOTES


def stopped(editor: Editor) -> None:
    """Stop the turn, and send the next prompt."""
    editor.stop()
    assert editor.wire.prompt_ends() == "cancelled"
    assert editor.wire.stopped_within() < SOON
    editor.wire.forget()
    editor.prompt("hello again")
    assert editor.wire.prompt_ends() == "end_turn"
    editor.screen.shows("You said 'hello again'")


def stop_streaming(editor: Editor) -> None:
    """Stop while text comes."""
    editor.prompt("stream")
    editor.screen.shows("item-2")
    stopped(editor)


def stop_in_a_tool(editor: Editor) -> None:
    """Stop while a tool runs."""
    editor.prompt("wait")
    editor.wire.until(lambda: editor.wire.updates("tool_call"), "the tool")
    editor.screen.shows("I wait.")
    stopped(editor)


def stop_at_a_question(editor: Editor) -> None:
    """Stop instead of an answer."""
    asked(editor)
    stopped(editor)
    assert editor.place.notes.read_text() == NOTES


def settings(editor: Editor) -> None:
    """Change what can be changed. The agent says what it has then."""
    editor.changes_settings()
    editor.wire.forget()
    editor.prompt("settings")
    assert editor.wire.prompt_ends() == "end_turn"
    assert "Now loud" in editor.wire.text() or "high" in editor.wire.text(), editor.wire.text()


def plan(editor: Editor) -> None:
    """A plan of two steps, the first of which is done."""
    editor.prompt("plan")
    assert editor.wire.prompt_ends() == "end_turn"
    assert [len(update["entries"]) for update in editor.wire.updates("plan")] == [2]
    if editor.shows["plan"] != NOTHING:
        editor.screen.shows("Sharpen the axe", "Cut the tree")
    time.sleep(_A_LOOK)


def usage(editor: Editor) -> None:
    """The context is 42 percent full, and the session has cost 25 cents."""
    editor.prompt("usage")
    assert editor.wire.prompt_ends() == "end_turn"
    (update,) = editor.wire.updates("usage_update")
    assert (update["used"], update["size"], update["cost"]["amount"]) == (42_000, 100_000, 0.25)
    if editor.shows["usage"] != NOTHING:
        editor.screen.shows("42")
    time.sleep(_A_LOOK)


def subagent(editor: Editor) -> None:
    """A child session. Clients without child sessions get a tool call with its messages."""
    editor.prompt("delegate")
    assert editor.wire.prompt_ends() == "end_turn"
    assert [update["title"] for update in editor.wire.updates("tool_call")] == ["Scout the woods"]
    editor.screen.shows("Scout the woods", "The scout is back")
    time.sleep(_A_LOOK)


def find_again(editor: Editor) -> None:
    """Quit, start it again, and find the session of before."""
    editor.prompt("think")
    assert editor.wire.prompt_ends() == "end_turn"
    editor.quit()
    editor.wire.forget()
    editor.finds_again()
    editor.answered("session/load", "session/resume")
    editor.wire.forget()
    editor.prompt("before")
    assert editor.wire.prompt_ends() == "end_turn"
    editor.screen.shows("messages before")
    assert "1 messages" not in editor.wire.text()


def failure(editor: Editor) -> None:
    """The agent's handler raises."""
    editor.prompt("fail")
    assert editor.wire.prompt_ends().startswith("error")
    time.sleep(_A_LOOK)


def agent_killed(editor: Editor) -> None:
    """The agent is killed while it streams. The editor lives on, and can be quit."""
    editor.prompt("stream")
    editor.screen.shows("item-2")
    editor.place.kill_agent()
    eventually(lambda: not editor.place.agents(), "the agent has ended")
    time.sleep(_A_LOOK)


def quit_while_streaming(editor: Editor) -> None:
    """Quit in the middle of a turn. No process is left."""
    editor.prompt("stream")
    editor.screen.shows("item-2")
    editor.quit()
    eventually(lambda: not editor.place.agents(), "the agent has ended")


def a_stopped_command(editor: Editor) -> None:
    """The built-in agent: stop a command that was allowed for good, then edit. The command does not run again."""
    editor.prompt("/run echo ran >>runs.txt; sleep 60")
    editor.wire.until(lambda: editor.wire.calls("session/request_permission"), "a question")
    editor.answer("always")
    runs = editor.place.project / "runs.txt"
    eventually(runs.exists, "the command runs")
    editor.stop()
    assert editor.wire.prompt_ends() == "cancelled"
    editor.wire.forget()
    editor.prompt("/edit notes.txt TWO => zwei")
    editor.wire.until(lambda: editor.wire.calls("session/request_permission"), "a question")
    editor.sees_diff()
    editor.answer("accept")
    assert editor.wire.prompt_ends() == "end_turn"
    written(editor, CHANGED)
    assert runs.read_text() == "ran\n"


AUTHOR: Final[Mapping[str, Callable[[Editor], None]]] = {
    "connect": connect,
    "stream": stream,
    "thought": thought,
    "edit, accept": accept,
    "edit, reject": reject,
    "edit, always": always,
    "question dismissed": dismissed,
    "Stop while it streams, then a prompt": stop_streaming,
    "Stop in a tool, then a prompt": stop_in_a_tool,
    "Stop at a question, then a prompt": stop_at_a_question,
    "modes and options": settings,
    "plan": plan,
    "usage": usage,
    "subagent": subagent,
    "quit, start, load or resume": find_again,
    "the agent fails": failure,
    "the agent is killed": agent_killed,
    "quit while it streams": quit_while_streaming,
}
"""With the agent of an author."""
BUILT_IN: Final[Mapping[str, Callable[[Editor], None]]] = {"a command stopped, then an edit": a_stopped_command}
"""With the built-in agent."""
