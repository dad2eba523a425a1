"""Finds out whether a situation of the profile works when nothing else is done.

A failed case is a fault of the agent only if its situations work alone. If a situation does not, the profile does not
describe this agent, and the rule could not be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from acp_conformance.core.case import Outcome

from .exchange import NoAnswer, Pending, code_of
from .profile import SITUATIONS
from .subject import SPEECH, VERSION, Agent
from .v2 import steps

_REQUESTS: Mapping[str, tuple[str, ...]] = {
    "permission": ("session/request_permission",),
    "read": ("fs/read_text_file",),
    "write": ("fs/write_text_file",),
    "terminal": ("terminal/create",),
    "nested": (
        *("session/request_permission", "elicitation/create", "fs/read_text_file", "fs/write_text_file"),
        *("terminal/create", "terminal/output", "terminal/wait_for_exit"),
    ),
}
"""The agent's requests to its client, by situation; they stay unanswered here."""

_UPDATES: Mapping[str, tuple[str, ...]] = {
    "tool": ("tool_call", "tool_call_update"),
    "plan": ("plan", "plan_update"),
    "reports": ("usage_update", "session_info_update", "current_mode_update", "config_option_update"),
}
"""The updates that it reports."""

_OFFERS = {"cancellable": ("tool_call_update", "toolCallId"), "shell": ("terminal_update", "terminalId")}
"""Its reports that can be cancelled alone (version 2)."""

_LASTING = ("hang", "stubborn", "nested", *_OFFERS)
"""The situations whose turns do not end by themselves."""


async def missing(agent: Agent, situation: str, version: int = VERSION) -> str:
    """Prompt for a situation in a new session, and return why the situation does not work; empty if it works.

    The result is also empty after a fault that does not concern the profile, such as an end of the process.
    """
    try:
        first = version == VERSION
        session = await (agent.session() if first else steps.session_of(agent))
        agent.hold(*_REQUESTS.get(situation, ()))
        prompt = await (agent.prompt(session, situation) if first else steps.prompt(agent, session, situation))
        came = await _Turn(agent, situation, session, prompt, version).instead()
    except Outcome:
        return ""
    wanted = f"a turn that {SITUATIONS[situation]}"
    return f"the situation {situation!r} does not work: instead of {wanted}, came a turn that {came}" if came else ""


class _Turn:
    def __init__(self, agent: Agent, situation: str, session: str, prompt: Pending, version: int) -> None:
        self._agent = agent
        self._situation = situation
        self._session = session
        self._prompt = prompt
        self._version = version

    async def instead(self) -> str:
        """Return the turn's actual behaviour, as a reason; empty if the situation came about."""
        signs: Mapping[str, Callable[[], bool]] = {
            **dict.fromkeys(_REQUESTS, self._asks),
            **dict.fromkeys(("hang", "stubborn"), self._works),
            **dict.fromkeys(_OFFERS, self._offers),
        }
        if self._situation not in signs:
            return await self._ends()
        sign = signs[self._situation]
        try:
            await self._agent.wait_for(lambda: sign() or self._end() or None, f"the situation {self._situation!r}")
        except NoAnswer as nothing:
            return f"did nothing of it: {nothing.reason}"
        return ("" if sign() else self._end()) or (await self._early_end() if self._situation in _LASTING else "")

    async def _ends(self) -> str:
        """Do the same for a turn that ends by itself. The result is empty for a turn that does not end."""
        end = await self._agent.wait_for(lambda: self._end() or None, "the end of the turn")
        if self._situation == "fails":
            return ""
        if code_of(next(iter(self._prompt.answers), None)) is not None:
            return end
        signs: Mapping[str, Callable[[], bool]] = {"stream": self._works, **dict.fromkeys(_UPDATES, self._reports)}
        sign = signs.get(self._situation)
        # Messages after the response count, too: another case finds that they are late.
        return "" if sign is None or await self._agent.comes(lambda: sign() or None) else end

    async def _early_end(self) -> str:
        try:
            return await self._agent.wait_for(lambda: self._end() or None, "the end of the turn")
        except NoAnswer:
            return ""

    def _end(self) -> str:
        """Return how the turn has ended; empty while it runs."""
        answer = next(iter(self._prompt.answers), None)
        if answer is not None and "error" in answer:
            return f"ended with an error: {steps.short(answer['error'])}"
        if self._version == VERSION:
            result = None if answer is None else answer.get("result")
            stop = result.get("stopReason") if isinstance(result, dict) else result
            return "" if answer is None else f"ended with the stop reason {steps.short(stop)}"
        idle = steps.states(self._agent, self._session, "idle", since=self._prompt.since)
        return f"ended with the stop reason {steps.short(idle[0].body.get('stopReason'))}" if idle else ""

    def _works(self) -> bool:
        # Another case checks that they have the id of the session.
        told = {update.kind for update in self._agent.updates(since=self._prompt.since)}
        if self._version == VERSION or self._situation == "stream":
            return bool(told & {*SPEECH, "agent_message"})
        return bool(steps.states(self._agent, self._session, "running", since=self._prompt.since))

    def _reports(self) -> bool:
        told = self._agent.updates(since=self._prompt.since)
        return any(each.kind in _UPDATES[self._situation] for each in told)

    def _asks(self) -> bool:
        wanted = _REQUESTS[self._situation]
        return any(each.method in wanted for each in self._agent.requests if each.position >= self._prompt.since)

    def _offers(self) -> bool:
        things = steps.fields(self._agent, self._session, *_OFFERS[self._situation])
        return any(map(steps.can_be_cancelled, things.values()))
