"""What one client has said of itself in its `initialize` (ACP, Initialization). It is read when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp_server.schema.capabilities import ClientCapabilities
    from acp_server.schema.initialization import Implementation, InitializeRequest


class ClientProfile:
    """One client. Before `initialize` it has announced nothing."""

    __slots__ = ("_params", "_read")

    def __init__(self) -> None:
        self.learn({"protocolVersion": 1})

    def learn(self, params: dict[str, Any]) -> None:
        """Take note of the parameters of an `initialize` that are known to be valid."""
        self._params = params
        self._read: InitializeRequest | None = None

    @property
    def capabilities(self) -> ClientCapabilities:
        """What it announced."""
        return self._request().client_capabilities

    @property
    def info(self) -> Implementation | None:
        """Its name and version, if it told them."""
        return self._request().client_info

    def _request(self) -> InitializeRequest:
        if self._read is None:
            from acp_server.schema.initialization import InitializeRequest

            self._read = InitializeRequest.from_wire(self._params)
        return self._read
