"""Whether the client of one connection has logged in (ACP, Authentication)."""

from __future__ import annotations

from typing import Any

from acp_server.errors import AuthRequired
from acp_server.peer.context import Call
from acp_server.session.hooks import Hooks


class Login:
    """Of one connection. Credentials that last longer are the author's matter."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._passed = not hooks.auth_required

    def check(self) -> None:
        """Raises AuthRequired if the client has to log in first."""
        if not self._passed:
            raise AuthRequired

    async def authenticate(self, call: Call) -> dict[str, Any]:
        """`authenticate`, which is `auth/login` in version 2. Raises InvalidParams."""
        from acp_server.schema.initialization import AuthenticateRequest
        from acp_server.schema.params import problem, read

        request = read(AuthenticateRequest, call.params)
        check = self._hooks.authenticate.get(request.method_id)
        if check is None:
            raise problem("methodId", "is not one of this agent's methods")
        await check(call)
        self._passed = True
        return {}

    async def logout(self, call: Call) -> dict[str, Any]:
        """`logout`, which is `auth/logout` in version 2."""
        if self._hooks.logout is not None:
            await self._hooks.logout(call)
        self._passed = not self._hooks.auth_required
        return {}
