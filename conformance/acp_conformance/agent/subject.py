"""The suite as the client of an agent: the tools of cases for agents.

    session = await agent.session()               # initialize if need be, then session/new: the session id
    prompt = await agent.prompt(session, "hang")  # a situation of the profile, in flight; no entry: the case is skipped
    await agent.said_something(prompt)            # its turn is running
    await agent.cancel(session)                   # session/cancel, and a client's duties after it
    result = await prompt.result()                # the result, or the case fails
    await agent.fence()                           # everything sent before has been dispatched by the agent
    await agent.settle()                          # its output has ended: nothing more can come
    if len(prompt.answers) != 1: fail(...)
    agent.updates(session)                        # all session/update of it so far, in order

Judges nothing by itself: a time-out ends the case as a failure with a reason.
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
    """A conversation with one fresh agent process, not yet initialized."""

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
        """The version that the conversation requests; its messages are checked against the schema of this one."""
        return self.checker.version

    @version.setter
    def version(self, version: int) -> None:
        self.checker.version = version

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The `agentCapabilities` that it announced; empty before `initialize`."""
        found = (self.initialized or {}).get("agentCapabilities")
        return found if isinstance(found, dict) else {}

    def can(self, path: str) -> bool:
        """Whether it announced a capability, such as `loadSession` or `sessionCapabilities.close`."""
        return announced(self.capabilities, path)

    async def ask_initialize(
        self, *, version: object = VERSION, capabilities: Mapping[str, Any] | None = None, **members: object
    ) -> Pending:
        """Send `initialize` and return its handle.

        Args:
            version: The `protocolVersion`.
            capabilities: The whole `clientCapabilities`; by default the editor's.
            members: Further members of the parameters; None omits a default one.
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
        """Whether this is the error of an agent that creates, lists or loads no session before the user logs in."""
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
        """`authenticate`, as in the profile, which must succeed."""
        if self.profile.authenticate is not None:
            with belongs_to("initialize/authenticates"):
                await (await self.request("authenticate", {"methodId": self.profile.authenticate})).result()

    async def session(self, **params: object) -> str:
        """A new session, after `initialize` if that was not done: its id. `params` change parameters of `session/new`.

        A case is skipped here if the agent wants the user to authenticate first.
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
        """`session/set_mode`, which must succeed."""
        await (await self.request("session/set_mode", {"sessionId": session, "modeId": mode})).result()

    async def prompt(self, session: str, situation: str) -> Pending:
        """Send the prompt of a situation of the profile; its handle, at once. No entry: the case is skipped."""
        text = self.text_of(situation)
        mode = self.profile.situations[situation].mode
        if mode is not None:
            await self.set_mode(session, mode)
        return await self.say(session, text)

    async def say(self, session: str, text: str | Sequence[Mapping[str, Any]]) -> Pending:
        """Send a prompt of this text, or of these content blocks; its handle, at once."""
        self._prompts[session] = pending = await self.request("session/prompt", prompt_params(session, text))
        return pending

    def text_of(self, situation: str) -> str:
        """The prompt text of a situation, for messages put together by hand. No entry: the case is skipped."""
        found = self.profile.situations.get(situation)
        if found is None:
            skip(f"the profile has no situation {situation!r}")
        self.hold(*found.hold)
        return found.prompt.replace("{cwd}", str(self.cwd))

    async def cancel(self, session: str, *, answer_permissions: bool = True) -> None:
        """`session/cancel`, and `cancelled` to each held permission request of the session, as a client must."""
        await self.notify("session/cancel", {"sessionId": session})
        for request in self.held("session/request_permission"):
            params = request.params
            if answer_permissions and isinstance(params, dict) and params.get("sessionId") == session:
                await request.answer({"outcome": {"outcome": "cancelled"}})

    async def cancel_request(self, pending: Pending) -> None:
        """`$/cancel_request` for a request of the suite."""
        await self.notify("$/cancel_request", {"requestId": pending.id})

    def updates(self, session: str | None = None, *, since: int = 0) -> list[Update]:
        """The updates so far, of one session if it is given, at or after position `since` of `received`."""
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
        """The updates that only a turn sends: message and thought chunks, tool calls, plans."""
        return [update for update in self.updates(session, since=since) if update.kind in SPEECH]

    async def said_something(self, session: str | Pending) -> Update:
        """Wait for the first such update after the (last) prompt of the session: its turn is running.

        If the prompt is answered first, the case fails: the profile does not describe this agent.
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
        """A cheap request and its response, twice: everything sent before has been read and dispatched by the agent.

        Responses that an agent sends at once are in `received` by then; slower ones may still come: see `settle`.
        """
        params: object = {}
        if self._fence_method != FENCE:
            params = {"cwd": str(self.cwd), "mcpServers": []}
        # An agent that serves messages concurrently may answer the first before it has begun with earlier ones.
        for _ in range(2):
            await (await self.request(self._fence_method, params)).answer()

    async def comes_late(self, missing: NoAnswer) -> bool:
        """Whether something comes after the time-out: within as much time again."""
        try:
            await self.wait_for(missing.find, missing.what)
        except Outcome:
            return False
        return True

    async def comes(self, find: Callable[[], T | None]) -> T | None:
        """The result of `find` once the agent cannot send more: after a fence, or at the end of its output.

        It ends the conversation if nothing is found; so None is proof that nothing comes.
        """
        await self.fence()
        found = find()
        if found is None:
            await (self.pause() if self.brief else self.settle())
            found = find()
        return found

    async def null_answer(self, *, since: int = 0) -> Mapping[str, Any] | None:
        """The response with the id null at or after position `since`, None if there is none; see `comes`."""
        return await self.comes(lambda: next(iter(self.null_answers(since)), None))


def prompt_params(session: str, text: str | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The parameters of `session/prompt`."""
    blocks = [{"type": "text", "text": text}] if isinstance(text, str) else list(text)
    return {"sessionId": session, "prompt": blocks}
