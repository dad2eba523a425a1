"""The suite as the client of an agent, with the functions that cases for agents use.

    session = await agent.session()               # initialize if need be, then session/new: the session id
    prompt = await agent.prompt(session, "hang")  # a situation of the profile, in flight; no entry: the case is skipped
    await agent.said_something(prompt)            # its turn is running
    await agent.cancel(session)                   # session/cancel, and a client's duties after it
    result = await prompt.result()                # the result, or the case fails
    await agent.fence()                           # everything sent before has been dispatched by the agent
    await agent.settle()                          # its output has ended: nothing more can come
    if len(prompt.answers) != 1: fail(...)
    agent.updates(session)                        # all session/update of it so far, in order

A time-out fails the case, with a reason. Nothing else is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from acp_conformance.core.case import Outcome, belongs_to, fail, skip
from acp_conformance.core.checker import Checker
from acp_conformance.core.process import Process
from acp_conformance.core.schema import announced

from .conversation import Conversation
from .editor import HOLD, Editor, Refuse
from .exchange import Ended, Incoming, NoAnswer, Pending, Received, Update
from .profile import Profile

__all__ = [
    "HOLD",
    "VERSION",
    "Agent",
    "Ended",
    "Incoming",
    "NoAnswer",
    "Pending",
    "Received",
    "Refuse",
    "Update",
    "prompt_params",
]

T = TypeVar("T")

VERSION = 1
"""The protocol version that the suite speaks."""

AUTH_REQUIRED = -32000

FENCE = "_conformance/fence"
"""A method that no agent has: it is refused at once, after everything that was sent before."""

SPEECH = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"})
"""Updates that only a turn sends; others may come at any time."""


class Agent(Conversation):
    """A conversation with one new process of the agent, which is not initialized yet."""

    def __init__(
        self,
        process: Process,
        profile: Profile,
        cwd: Path,
        *,
        patience: float,
        start_patience: float,
        fence_method: str = FENCE,
    ) -> None:
        super().__init__(
            process, Checker("agent"), Editor(cwd, profile.answers), patience=patience, start_patience=start_patience
        )
        self.profile = profile
        self.cwd = cwd
        """An absolute directory with the profile's `cwd_files`: the working directory of the sessions."""
        self.initialized: Mapping[str, Any] | None = None
        """The result of `initialize`."""
        self.new_session: Mapping[str, Any] = {}
        """The result of the last `session/new`."""
        self.mark = ""
        """A variable in the environment of its processes: it finds processes that left its group."""
        self.brief = False
        """Whether a failure here is judged again in a separate process: a time-out then ends the conversation."""
        self._fence_method = fence_method
        self._prompts: dict[str, Pending] = {}
        self._has_session = False

    @property
    def version(self) -> int:
        """The protocol version that the conversation requests. Messages are checked against the schema of this
        version."""
        return self.checker.version

    @version.setter
    def version(self, version: int) -> None:
        self.checker.version = version

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The announced `agentCapabilities`; empty before `initialize`."""
        found = (self.initialized or {}).get("agentCapabilities")
        return found if isinstance(found, dict) else {}

    def can(self, path: str) -> bool:
        """Whether the agent announced a capability, such as `loadSession` or `sessionCapabilities.close`."""
        return announced(self.capabilities, path)

    async def ask_initialize(
        self, *, version: object = VERSION, capabilities: Mapping[str, Any] | None = None, **members: object
    ) -> Pending:
        """Send `initialize`, and return the handle of the request.

        Args:
            version: The `protocolVersion`.
            capabilities: The whole `clientCapabilities`; by default those of the editor.
            members: Further members of the parameters. None omits a default member.
        """
        announced_here = self.editor.capabilities if capabilities is None else capabilities
        self.checker.client_capabilities = announced_here
        params: dict[str, Any] = {
            "protocolVersion": version,
            "clientCapabilities": announced_here,
            "clientInfo": {"name": "acp-conformance", "version": "1"},
            **members,
        }
        return await self.request("initialize", {name: value for name, value in params.items() if value is not None})

    def wants_login(self, method: str, error: object) -> bool:
        """Whether the error says that the user must log in before the agent creates, lists or loads sessions."""
        code = error.get("code") if isinstance(error, dict) else None
        return code == AUTH_REQUIRED and method.startswith("session/") and not self._has_session

    async def initialize(self, **capabilities: object) -> Mapping[str, Any]:
        """Initialize with the default capabilities, overridden by keyword arguments, and return the result. Without
        arguments, later calls return the first result.

        `initialize(terminal=False)`, `initialize(fs={})`, `initialize(elicitation={"form": {}})`.
        """
        if self.initialized is not None and not capabilities:
            return self.initialized
        with belongs_to("initialize/answers"):
            pending = await self.ask_initialize(capabilities={**self.editor.capabilities, **capabilities})
            result = await pending.result()
        self.initialized = result if isinstance(result, dict) else {}
        await self.log_in()
        return self.initialized

    async def log_in(self) -> None:
        """Send `authenticate` as in the profile. The case fails if the agent refuses."""
        if self.profile.authenticate is not None:
            with belongs_to("initialize/authenticates"):
                await (await self.request("authenticate", {"methodId": self.profile.authenticate})).result()

    async def session(self, **params: object) -> str:
        """Create a session, and return its id. Sends `initialize` first if necessary. `params` change parameters of
        `session/new`.

        Skips the case if the agent requires that the user authenticates first.
        """
        if self.initialized is None:
            await self.initialize()
        with belongs_to("" if params else "sessions/new"):
            pending = await self.request("session/new", {"cwd": str(self.cwd), "mcpServers": [], **params})
            result = await pending.result()
            session = result.get("sessionId") if isinstance(result, dict) else None
            if not isinstance(session, str):
                fail("session/new was answered without a sessionId")
        self.new_session = result
        self._has_session = True
        if self.profile.mode is not None:
            await self.set_mode(session, self.profile.mode)
        for option, value in self.profile.options.items():
            params = {"sessionId": session, "configId": option, "value": value}
            await (await self.request("session/set_config_option", params)).result()
        return session

    async def set_mode(self, session: str, mode: str) -> None:
        """Send `session/set_mode`. The case fails if the agent refuses."""
        await (await self.request("session/set_mode", {"sessionId": session, "modeId": mode})).result()

    async def prompt(self, session: str, situation: str) -> Pending:
        """Send the prompt of a situation, and return the handle without waiting. Skips the case if the profile lacks
        the situation."""
        text = self.text_of(situation)
        mode = self.profile.situations[situation].mode
        if mode is not None:
            await self.set_mode(session, mode)
        return await self.say(session, text)

    async def say(self, session: str, text: str | Sequence[Mapping[str, Any]]) -> Pending:
        """Send a prompt of this text, or of these content blocks, and return the handle without waiting."""
        self._prompts[session] = pending = await self.request("session/prompt", prompt_params(session, text))
        return pending

    def text_of(self, situation: str) -> str:
        """Return the prompt text of a situation, for messages that a case builds itself. Skips the case if the profile
        lacks the situation."""
        found = self.profile.situations.get(situation)
        if found is None:
            skip(f"the profile has no situation {situation!r}")
        self.hold(*found.hold)
        return found.prompt.replace("{cwd}", str(self.cwd))

    async def cancel(self, session: str, *, answer_permissions: bool = True) -> None:
        """Send `session/cancel`, and answer each held permission request of the session by `cancelled`, as a client
        must."""
        await self.notify("session/cancel", {"sessionId": session})
        for request in self.held("session/request_permission"):
            params = request.params
            if answer_permissions and isinstance(params, dict) and params.get("sessionId") == session:
                await request.answer({"outcome": {"outcome": "cancelled"}})

    async def cancel_request(self, pending: Pending) -> None:
        """Send `$/cancel_request` for a request of the suite."""
        await self.notify("$/cancel_request", {"requestId": pending.id})

    def updates(self, session: str | None = None, *, since: int = 0) -> list[Update]:
        """Return the updates so far, at or after position `since` of `received`. With a session, only the updates of
        that session."""
        found: list[Update] = []
        for entry in self.received[since:]:
            match entry.message:
                case {
                    "method": "session/update",
                    "params": {"sessionId": str(id), "update": {"sessionUpdate": str(kind)} as body},
                } if session in (None, id):
                    found.append(Update(entry.position, id, kind, body))
                case _:
                    pass
        return found

    def spoken(self, session: str, *, since: int = 0) -> list[Update]:
        """Return the updates that only a turn sends: message and thought chunks, tool calls, plans."""
        return [update for update in self.updates(session, since=since) if update.kind in SPEECH]

    async def said_something(self, session: str | Pending) -> Update:
        """Wait for the first update of the turn of the last prompt in the session, so that the turn is running.

        The case fails if the prompt is answered first, because then the profile does not describe this agent.
        """
        if isinstance(session, Pending):
            session = next(id for id, pending in self._prompts.items() if pending is session)
        prompt = self._prompts[session]

        def find() -> Update | bool | None:
            said, answered = self.spoken(session, since=prompt.since), prompt.position
            if said and (answered is None or said[0].position < answered):
                return said[0]
            return None if answered is None else False

        said = await self.wait_for(find, "the first update of the turn")
        if isinstance(said, bool):
            fail(f"the prompt was answered before the turn sent an update: {prompt.answers[0]}"[:300])
        return said

    async def fence(self) -> None:
        """Send a cheap request and wait for its response, twice. After that the agent has read and dispatched all
        earlier messages.

        Responses that an agent sends at once are then in `received`. Slower responses may still arrive (see `settle`).
        """
        params: object = {}
        if self._fence_method != FENCE:
            params = {"cwd": str(self.cwd), "mcpServers": []}
        # An agent that serves messages concurrently may answer the first before it has begun with earlier ones.
        for _ in range(2):
            await (await self.request(self._fence_method, params)).answer()

    async def comes_late(self, missing: NoAnswer) -> bool:
        """Whether `find` finds something after the time-out, within the same time again."""
        try:
            await self.wait_for(missing.find, missing.what)
        except Outcome:
            return False
        return True

    async def comes(self, find: Callable[[], T | None]) -> T | None:
        """Return the result of `find` when the agent cannot send more, which is after a fence or at the end of the
        output.

        If nothing is found, the conversation is ended, so None proves that the message never arrives.
        """
        await self.fence()
        found = find()
        if found is None:
            await (self.pause() if self.brief else self.settle())
            found = find()
        return found

    async def null_answer(self, *, since: int = 0) -> Mapping[str, Any] | None:
        """Return the response with the id null at or after position `since`; None if there is no such response (see
        `comes`)."""
        return await self.comes(lambda: next(iter(self.null_answers(since)), None))


def prompt_params(session: str, text: str | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of `session/prompt`."""
    blocks = [{"type": "text", "text": text}] if isinstance(text, str) else list(text)
    return {"sessionId": session, "prompt": blocks}
