"""One session of a client that speaks version 2: it has a node of its own, below which its work hangs, for that goes on
when the request that began it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, cast

import anyio

from acp_server.session import session as v1
from acp_server.session.v2.client import Client
from acp_server.session.v2.updates import Updates

if TYPE_CHECKING:
    from acp_server.peer.peer import Peer
    from acp_server.schema.session import McpServer
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.negotiation import ClientProfile
    from acp_server.session.turn import Turn as AnyTurn
    from acp_server.session.v2.terminal import Terminal
    from acp_server.session.v2.turn import Turn
    from acp_server.store.records import SessionRecord


class Session(v1.Session):
    """See `acp_server.session.session.Session`."""

    UPDATES: ClassVar = Updates
    CLIENT: ClassVar = Client
    updates: Updates

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
        """Its terminals that were not released, by id."""
        self.on_close(self._end_terminals)

    def insert(self, turn: AnyTurn) -> None:
        """The user's message is part of the conversation from now on."""
        super().begin(turn)
        self.updates.user_message(turn.id, turn.record.prompt)

    def begin(self, turn: AnyTurn) -> None:
        """The turn is about to run. It is part of the history since its message is."""

    def cancel_tool_call(self, id: str) -> bool:
        """Cancel one tool call, while its turn goes on. False if the client was not offered that, or not any more."""
        turn = cast("Turn | None", self.running)
        if turn is None or id not in turn.speech.offered:
            return False
        self.tools.cancel_from_client(turn, id)
        return True

    async def _end_terminals(self) -> None:
        async with anyio.create_task_group() as group:
            for terminal in list(self.terminals.values()):
                group.start_soon(terminal.let_go)

    async def close(self) -> None:
        """See `acp_server.session.session.Session`."""
        await super().close()
        self.node.close()
