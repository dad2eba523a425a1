"""Makes a profile from one conversation: it tries prompts, and finds their situations by the agent's reactions.

The prompts are a greeting, the user's prompts, the commands that the agent offers, and prompts for the usual tools. The
suite answers the agent as in a run: files and terminals are in memory, no command is run, and every permission is
granted. Nothing is judged.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from acp_conformance.core.case import Outcome

from .exchange import Ended, NoAnswer
from .profile import Profile, Situation
from .subject import SPEECH, Agent

GREETING = "Say OK."
TOOLS = (
    "Read the file {cwd}/a.txt and say what its first line is.",
    "Write the word done into the file {cwd}/b.txt.",
    "Run the command `sleep 60` in a terminal.",
    "Make a plan of three steps for tidying up this folder, and show it.",
)
"""The requests and reports of an agent with the tools for it."""

UNKNOWN = Profile(cwd_files={"a.txt": "first line\nsecond line\n"})
"""The profile of a watched agent."""

_MOST_COMMANDS = 12
_UNTRIED = frozenset({"login", "logout", "quit", "exit"})
"""Commands that would change more than their session."""

_METHODS = {
    "fs/read_text_file": "read",
    "fs/write_text_file": "write",
    "terminal/create": "terminal",
    "session/request_permission": "permission",
}
ASKING = frozenset({*_METHODS.values(), "nested"})
"""The situations of an agent that sends requests to its client."""

_WAITS = ("terminal/wait_for_exit", "session/request_permission", "fs/read_text_file", "fs/write_text_file")
"""Requests of a turn that can be left unanswered, so that the turn waits until it is cancelled; the best first."""


FOUND = frozenset({*_METHODS.values(), "quick", "stream", "hang", "fails", "nested", "tool", "plan", "reports"})
"""The situations that one conversation can show: neither a slow stop, nor situations of version 2."""

_REPORTS = frozenset({"usage_update", "session_info_update", "current_mode_update", "config_option_update"})


@dataclass(slots=True)
class Turn:
    """The agent's reactions to one prompt."""

    prompt: str
    updates: list[str] = field(default_factory=list)
    """The kinds of its updates."""
    said: str = ""
    requests: list[str] = field(default_factory=list)
    """The methods of its requests to the client."""
    ended: str = ""
    """Its stop reason, `error`, or nothing if it had to be cancelled."""
    seconds: float = 0.0
    """Its duration in seconds."""
    reported: list[str] = field(default_factory=list)
    """The kinds of its reports about the session."""


@dataclass(slots=True)
class Watched:
    """The known facts about the agent after the conversation."""

    name: str = ""
    turns: list[Turn] = field(default_factory=list)
    missing: str = ""
    """Why there was no session."""

    @property
    def situations(self) -> Mapping[str, Situation]:
        """Return the first prompt that fits each situation, and how it fits."""
        found: dict[str, Situation] = {}
        for turn in self.turns:
            for name, hold in _of(turn):
                found.setdefault(name, Situation(turn.prompt, hold=hold))
        return found

    @property
    def slowest(self) -> float:
        """Return the seconds of the slowest useful turn that ended by itself."""
        used = {entry.prompt for entry in self.situations.values()}
        return max((turn.seconds for turn in self.turns if turn.ended and turn.prompt in used), default=0.0)

    @property
    def asks(self) -> bool:
        """Whether the agent sent a request to the client in any turn."""
        return any(turn.requests for turn in self.turns)


async def watch(
    agent: Agent,
    prompts: Iterable[str] = (),
    *,
    tools: bool = True,
    within: float | None = None,
    limit: float | None = None,
) -> Watched:
    """Hold the conversation. Every prompt has a separate session.

    Args:
        prompts: Further prompts to try.
        tools: Whether to try the offered commands and prompts for tools, or only the greeting.
        within: Seconds after which a turn is cancelled; by default the patience of the conversation.
        limit: Seconds of the whole conversation. Findings after that time are left out.
    """
    watched = Watched()
    with anyio.move_on_after(limit):
        await _converse(agent, prompts, watched, within, tools=tools)
    return watched


async def _converse(
    agent: Agent, prompts: Iterable[str], watched: Watched, within: float | None, *, tools: bool
) -> None:
    try:
        info = (await agent.initialize()).get("agentInfo")
        watched.name = str(info.get("name", "")) if isinstance(info, dict) else ""
        session = await agent.session()
        await agent.fence()
        await agent.pause()
    except Outcome as outcome:
        watched.missing = outcome.reason
        return
    further = [*_commands(agent, session), *TOOLS] if tools else []
    for prompt in dict.fromkeys([GREETING, *prompts, *further]):
        try:
            watched.turns.append(await _turn(agent, prompt, within))
        except Ended:
            return
        except Outcome:
            continue


def _commands(agent: Agent, session: str) -> list[str]:
    offered: Any = []
    for update in agent.updates(session):
        if update.kind == "available_commands_update":
            offered = update.body.get("availableCommands")
    named = [each.get("name") for each in offered if isinstance(each, dict)] if isinstance(offered, list) else []
    return [f"/{name}" for name in named if isinstance(name, str) and name not in _UNTRIED][:_MOST_COMMANDS]


async def _turn(agent: Agent, text: str, within: float | None) -> Turn:
    agent.begin_case()
    session = await agent.session()
    since, asked, began = len(agent.received), len(agent.requests), time.monotonic()
    turn = Turn(text)
    pending = await agent.say(session, text.replace("{cwd}", str(agent.cwd)))
    try:
        answer = await pending.answer(within=within)
        result = answer.get("result")
        turn.ended = str(result.get("stopReason")) if isinstance(result, dict) else "error"
    except NoAnswer:
        await agent.cancel(session)
        await pending.answer()
    turn.seconds = time.monotonic() - began
    told = agent.spoken(session, since=since)
    turn.updates = [update.kind for update in told]
    turn.reported = [each.kind for each in agent.updates(session, since=since) if each.kind in _REPORTS]
    turn.said = "".join(update.text for update in told if update.kind == "agent_message_chunk")
    turn.requests = [request.method for request in agent.requests[asked:]]
    return turn


def _of(turn: Turn) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return the situations that a turn fits, each with the methods to leave unanswered."""
    if turn.ended == "error":
        yield "fails", ()
        return
    spoke = any(kind in SPEECH for kind in turn.updates)
    if not turn.ended:
        if spoke:
            yield "hang", ()
        return
    if not turn.requests:
        yield "quick", ()
    if turn.updates.count("agent_message_chunk") > 1 and not turn.requests:
        yield "stream", ()
    for method, name in _METHODS.items():
        if method in turn.requests:
            yield name, ()
    for kind, name in (("tool_call", "tool"), ("plan", "plan")):
        if kind in turn.updates:
            yield name, ()
    if turn.reported:
        yield "reports", ()
    if waits := [method for method in _WAITS if method in turn.requests]:
        yield "nested", ()
        if spoke:
            yield "hang", (waits[0],)


def as_toml(watched: Watched, setup: Mapping[str, str]) -> str:
    """Return the profile as the text of a file, with the agent's reactions to each prompt as a comment."""
    lines = [f"name = {_string(watched.name or 'my agent')}"]
    did = {turn.prompt: turn for turn in watched.turns}
    found = watched.situations
    head = [f"{key} = {_string(value)}" for key, value in setup.items()]
    for name, text in UNKNOWN.cwd_files.items():
        if any(name in entry.prompt for entry in found.values()):
            head.append(f"cwd_files = {{ {_string(name)} = {_string(text)} }}")
    if head:
        lines += ["", "[setup]", *head]
    for name, entry in found.items():
        turn = did[entry.prompt]
        seen = [*dict.fromkeys([*turn.updates, *turn.requests]), turn.ended or "had to be cancelled"]
        lines += ["", f"[situations.{name}]  # {_string(', '.join(seen))[1:-1]}"]
        lines.append(f"prompt = {_string(entry.prompt)}")
        if entry.hold:
            lines.append(f"hold = {json.dumps(entry.hold)}")
    return "\n".join(lines) + "\n"


def _string(value: object) -> str:
    """Return a basic string of TOML. Its escapes are those of JSON, and DEL is escaped too."""
    text = str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
