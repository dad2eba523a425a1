"""The sessions of a client of version 2: the client's requests, and the requests to the client (ACP v2, session setup,
permission requests, terminals).

The foreground work of a session is below the session's node, because that work outlives the request that began it.
`acp_server.session.lifecycle` creates, ends and lists sessions; this module has the requests and responses of version
2.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import anyio

from acp_server.errors import SessionClosed
from acp_server.schema.reading import problem, read
from acp_server.session import client as client_v1
from acp_server.session import lifecycle as lifecycle_v1
from acp_server.session.live_session import LiveSession
from acp_server.session.setup import PlainSetup, check_size
from acp_server.session.terminal import words_of
from acp_server.session.v2 import forms
from acp_server.session.v2.attempts import Attempts
from acp_server.session.v2.updates import Updates

if TYPE_CHECKING:
    from acp_server.peer.call import LiveCall
    from acp_server.peer.peer import Peer
    from acp_server.schema.base import Model
    from acp_server.schema.config_options import InitialSessionConfigOption
    from acp_server.schema.session import ForkSessionRequest, McpServer, ResumeSessionRequest, SystemPrompt
    from acp_server.schema.updates import SessionUpdate
    from acp_server.schema.v2.session import ForkSessionRequest as ForkSessionRequestV2
    from acp_server.schema.v2.session import InitialSessionConfigOption as InitialSessionConfigOptionV2
    from acp_server.schema.v2.session import McpServer as McpServerV2
    from acp_server.schema.v2.session import NewSessionRequest as NewSessionRequestV2
    from acp_server.schema.v2.session import SystemPrompt as SystemPromptV2
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.negotiation import ClientProfile
    from acp_server.session.settings import Settings
    from acp_server.session.updates import LiveTurn
    from acp_server.session.v2.prompting import LiveTurn as LiveTurnV2
    from acp_server.session.v2.terminal import Terminal
    from acp_server.store.records import SessionRecord

_TITLE: Final = "May this tool run?"


class Client(client_v1.Client):
    """The client, as one session sees it."""

    async def create_terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> Terminal:
        """Start a command on this machine, in a terminal that the client shows. Raises InvalidParams for a command that
        cannot be started, and SessionClosed."""
        from acp_server.session.v2.terminal import Terminal

        session = cast("Session", self._session)
        if session.closed:
            raise SessionClosed
        words = words_of(command, args)
        about = {"command": shlex.join(words), "cwd": cwd or session.cwd}
        terminal = Terminal(self.connection, session.updates, session.terminals, session.id, self._turn(), about)
        await terminal.start(words, env, output_byte_limit)
        return terminal

    def _question(self, tool_call: dict[str, Any], options: Sequence[dict[str, Any]]) -> Model:
        from acp_server.schema.v2.questions import RequestPermissionRequest

        subject = dict(tool_call)
        content = list(subject.get("content", ()))
        description = None
        diffs = sum(1 for _ in takewhile(lambda piece: piece.get("type") == "diff", content))
        words: dict[str, Any] = content[diffs] if diffs < len(content) else {}
        if words.get("type") == "content" and words["content"].get("type") == "text":
            # Version 2 has a member for the text of the question. Version 1 has it in the content, after the diffs.
            description = content.pop(diffs)["content"]["text"]
        subject.pop("content", None)
        if content:
            subject["content"] = [forms.tool_content(piece) for piece in content]
        question = {
            "sessionId": self.session_id,
            "title": subject.get("title") or _TITLE,
            "subject": {"type": "tool_call", "toolCall": subject},
            "options": options,
        }
        if description is not None:
            question["description"] = description
        return RequestPermissionRequest.from_wire(question)


class Session(LiveSession):
    """One session; see `acp_server.session.session.Session`."""

    __slots__ = ("attempts", "node", "terminals")

    MODE_IS_OPTION: ClassVar[bool] = True
    _UPDATES: ClassVar = Updates
    _CLIENT: ClassVar = Client
    updates: Updates  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        record: SessionRecord,
        connection: Peer,
        profile: ClientProfile,
        definition: AgentDefinition,
        mcp_servers: Sequence[McpServer] = (),
    ) -> None:
        super().__init__(record, connection, profile, definition, mcp_servers)
        self.updates.settings = self.settings
        self.node: Final = connection.tree.child(f"session {record.id}")
        self.terminals: Final[dict[str, Terminal]] = {}
        """The terminals that were not released, by id."""
        self.attempts: Final = Attempts()
        self.on_close(self._end_terminals)

    def is_child_of(self, parent: LiveTurn) -> None:
        """See `LiveSession`."""
        super().is_child_of(parent)
        self.updates.settings = self.settings

    def has_message(self, id: str) -> bool:
        """Whether a prompt with this key, which is the id of its turn, is part of the conversation or is held."""
        return id in self.attempts or any(turn.id == id for turn in self.record.turns)

    def insert(self, turn: LiveTurn) -> None:
        """Make the user's message part of the conversation. Raises EncodeError; then the message is not part of it."""
        self.updates.user_message(turn.id, turn.record.prompt)
        super().begin(turn)

    def begin(self, turn: LiveTurn) -> None:
        """Do nothing, because the turn is in the history since its message was inserted."""

    def cancel_tool_call(self, id: str) -> bool:
        """Cancel one tool call; the turn continues. Returns False if the client was not offered to cancel this call, or
        if it no longer can."""
        turn = cast("LiveTurnV2 | None", self.running)
        if turn is None or id not in turn.speech.offered:
            return False
        self.tools.cancel_from_client(turn.face, id)
        return True

    def _offered(self) -> dict[str, Any]:
        offered = forms.offered(self.settings)
        return {"configOptions": offered} if offered else {}

    def _in_step(self, changed: str | None) -> list[SessionUpdate]:
        # In version 2 the mode is only an option.
        return []

    async def _end_terminals(self) -> None:
        async with anyio.create_task_group() as group:
            for terminal in list(self.terminals.values()):
                group.start_soon(terminal.let_go)

    async def close(self) -> None:
        """See `acp_server.session.session.Session`."""
        await super().close()
        self.node.close()


class Lifecycle(lifecycle_v1.Lifecycle):
    """The sessions of one connection."""

    SESSION: ClassVar[type[LiveSession]] = Session

    async def new(self, call: LiveCall) -> dict[str, Any]:
        """`session/new`."""
        from acp_server.schema.v2.session import NewSessionRequest

        check_size(call.params, call.connection.limits)
        asked = read(NewSessionRequest, call.params)
        request = _setup(asked)
        self._reachable(request.mcp_servers)
        session = await self._made(call, request)
        return session.opening()

    def _read_known(self, name: str, call: LiveCall) -> ResumeSessionRequest:
        from acp_server.schema.session import ResumeSessionRequest
        from acp_server.schema.v2.session import ReplayFromStart
        from acp_server.schema.v2.session import ResumeSessionRequest as ResumeSessionRequestV2

        asked = read(ResumeSessionRequestV2, call.params)
        if not isinstance(asked.replay_from, ReplayFromStart | None):
            raise problem("replayFrom", "is not a place that this agent can replay from")
        return ResumeSessionRequest(
            session_id=asked.session_id,
            cwd=asked.cwd,
            additional_directories=asked.additional_directories,
            mcp_servers=self._reachable(_servers(asked.mcp_servers)),
            system_prompt=_system_prompt(asked.system_prompt),
            config_options=_initial(asked.config_options),
        )

    def _reachable(self, servers: list[McpServer]) -> list[McpServer]:
        """Return the servers. Raises InvalidParams for a transport that the agent does not announce (v2, McpServer)."""
        usable = {"stdio", *self._definition.mcp}
        for index, server in enumerate(servers):
            if (transport := server.type or "stdio") not in usable:
                raise problem(f"mcpServers[{index}]", f"this agent does not connect by {transport}")
        return servers

    def _read_fork(self, call: LiveCall) -> ForkSessionRequest:
        from acp_server.schema.session import ForkSessionRequest
        from acp_server.schema.v2.session import ForkSessionRequest as ForkSessionRequestV2

        asked = read(ForkSessionRequestV2, call.params)
        return ForkSessionRequest(session_id=asked.session_id, **_setup(asked)._asdict())

    def _shown(self, settings: Settings) -> dict[str, Any]:
        commands = self._definition.commands() if self._definition.commands is not None else ()
        shown = forms.commands({"availableCommands": [command.to_wire() for command in commands]})
        return {"configOptions": forms.offered(settings), **shown}

    async def resume(self, call: LiveCall) -> dict[str, Any]:
        """`session/resume`: replays the session before the response if the client asked for it. Then sends the state,
        which is idle."""
        async with self._reopened(call, call.follower.request, "resume") as session:
            way = cast("Session", session).updates.replay()
            if call.params.get("replayFrom") is not None:
                await self.replay(session, way, as_terminals=True)
            way.state("idle")
        return session.offered()


def _setup(asked: NewSessionRequestV2 | ForkSessionRequestV2) -> PlainSetup:
    """Return the setup of a session in the form of version 1, for authors."""
    servers, prompt = _servers(asked.mcp_servers), _system_prompt(asked.system_prompt)
    return PlainSetup(asked.cwd, asked.additional_directories, servers, prompt, _initial(asked.config_options))


def _initial(options: Sequence[InitialSessionConfigOptionV2]) -> list[InitialSessionConfigOption]:
    """Return the values that a session begins with, in the form of version 1. Raises InvalidParams for a kind of value
    that version 2 does not have yet."""
    from acp_server.schema.config_options import InitialSessionConfigOption
    from acp_server.schema.v2.session import UnknownInitialSessionConfigOption

    known: list[InitialSessionConfigOption] = []
    for index, option in enumerate(options):
        if isinstance(option, UnknownInitialSessionConfigOption):
            raise problem(f"configOptions[{index}].type", "is not a kind of value that this agent knows")
        known.append(InitialSessionConfigOption(config_id=option.config_id, value=option.value))
    return known


def _system_prompt(prompt: SystemPromptV2 | None) -> SystemPrompt | None:
    """Return the system prompt in the form of version 1, for authors. The agent refuses a system prompt that has blocks
    other than text."""
    from acp_server.schema.session import SystemPrompt

    return None if prompt is None else read(SystemPrompt, prompt.to_wire())


def _servers(servers: Sequence[McpServerV2]) -> list[McpServer]:
    """Return the MCP servers in the form of version 1, for authors. A server of a type that only version 2 has gets an
    unknown type. Raises InvalidParams for a malformed server of a type that only version 1 has, and for members that
    are nested too deep or not Unicode."""
    from acp_server.schema.session import McpServer

    try:
        plain = [server.to_wire() for server in servers]
    except ValueError:
        raise problem("mcpServers", "has members that cannot be kept: nested too deep, or not Unicode") from None
    return [read(McpServer, server) for server in plain]
