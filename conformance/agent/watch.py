"""A profile from one conversation: prompts are tried, and what they make the agent do tells what they are for.

Tried are a greeting, the commands that the agent offers, and what the user names. Nothing is judged. The client's part
is played as in a run: files and terminals are in memory, no command is run, and what the agent asks leave for is
allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.core.case import Outcome

from .exchange import Ended, NoAnswer
from .subject import SPEECH, Agent

GREETING = "Say OK."
_MOST_COMMANDS = 12
_METHODS = {
    "fs/read_text_file": "read",
    "fs/write_text_file": "write",
    "terminal/create": "terminal",
    "session/request_permission": "permission",
}
_WAITS = ("terminal/wait_for_exit", "session/request_permission", "fs/read_text_file", "fs/write_text_file")
"""Requests of a turn that can be left unanswered, so that the turn waits until it is cancelled; the best first."""


@dataclass(slots=True)
class Turn:
    """What one prompt made the agent do."""

    prompt: str
    updates: list[str] = field(default_factory=list)
    """The kinds of its updates."""
    said: str = ""
    requests: list[str] = field(default_factory=list)
    """The methods that it has asked the client for."""
    ended: str = ""
    """Its stop reason, `error`, or nothing if it had to be cancelled."""


@dataclass(slots=True)
class Watched:
    """What is known of the agent after the conversation."""

    name: str = ""
    turns: list[Turn] = field(default_factory=list)
    missing: str = ""
    """Why there was no session."""


async def watch(agent: Agent, prompts: Iterable[str] = ()) -> Watched:
    """Hold the conversation. Every prompt has a session of its own."""
    watched = Watched()
    try:
        info = (await agent.initialize()).get("agentInfo")
        watched.name = str(info.get("name", "")) if isinstance(info, dict) else ""
        session = await agent.session()
        await agent.fence()
        await agent.pause()
    except Outcome as outcome:
        watched.missing = outcome.reason
        return watched
    tried = dict.fromkeys([GREETING, *prompts, *_commands(agent, session)])
    for prompt in tried:
        try:
            watched.turns.append(await _turn(agent, prompt))
        except Ended:
            break
        except Outcome:
            continue
    return watched


def _commands(agent: Agent, session: str) -> list[str]:
    offered: Any = []
    for update in agent.updates(session):
        if update.kind == "available_commands_update":
            offered = update.body.get("availableCommands")
    named = [each.get("name") for each in offered if isinstance(each, dict)] if isinstance(offered, list) else []
    return [f"/{name}" for name in named if isinstance(name, str)][:_MOST_COMMANDS]


async def _turn(agent: Agent, text: str) -> Turn:
    agent.begin_case()
    session = await agent.session()
    since, asked = len(agent.received), len(agent.requests)
    turn = Turn(text)
    pending = await agent.say(session, text)
    try:
        answer = await pending.answer()
        result = answer.get("result")
        turn.ended = str(result.get("stopReason")) if isinstance(result, dict) else "error"
    except NoAnswer:
        await agent.cancel(session)
        await pending.answer()
    told = agent.spoken(session, since=since)
    turn.updates = [update.kind for update in told]
    turn.said = "".join(update.text for update in told if update.kind == "agent_message_chunk")
    turn.requests = [request.method for request in agent.requests[asked:]]
    return turn


def situations(turns: Sequence[Turn]) -> Mapping[str, Mapping[str, Any]]:
    """Which prompt is for which situation: the first that fits, and how."""
    found: dict[str, Mapping[str, Any]] = {}
    for turn in turns:
        for name, entry in _of(turn):
            found.setdefault(name, {"prompt": turn.prompt, **entry})
    return found


def _of(turn: Turn) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if turn.ended == "error":
        yield "fails", {}
        return
    spoke = any(kind in SPEECH for kind in turn.updates)
    if not turn.ended:
        if spoke:
            yield "hang", {}
        return
    if not turn.requests:
        yield "quick", {}
    if turn.updates.count("agent_message_chunk") > 1 and not turn.requests:
        yield "stream", {}
    for method, name in _METHODS.items():
        if method in turn.requests:
            yield name, {}
    for kind, name in (("tool_call", "tool"), ("plan", "plan")):
        if kind in turn.updates:
            yield name, {}
    if waits := [method for method in _WAITS if method in turn.requests]:
        yield "nested", {}
        if spoke:
            yield "hang", {"hold": [waits[0]]}


def as_toml(watched: Watched, setup: Mapping[str, Any]) -> str:
    """The profile as a file, with what each prompt made the agent do as a comment."""
    lines = [f"name = {_string(watched.name or 'my agent')}"]
    if setup:
        lines += ["", "[setup]", *(f"{key} = {_string(value)}" for key, value in setup.items())]
    did = {turn.prompt: turn for turn in watched.turns}
    for name, entry in situations(watched.turns).items():
        turn = did[entry["prompt"]]
        seen = [*dict.fromkeys([*turn.updates, *turn.requests]), turn.ended or "had to be cancelled"]
        lines += ["", f"[situations.{name}]  # {_string(', '.join(seen))[1:-1]}"]
        lines += [
            f"{key} = {_string(value) if isinstance(value, str) else json.dumps(value)}" for key, value in entry.items()
        ]
    return "\n".join(lines) + "\n"


def _string(value: object) -> str:
    """A basic string of TOML, whose escapes are those of JSON but for DEL."""
    text = str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
