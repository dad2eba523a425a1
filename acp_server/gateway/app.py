"""The routes of the API, each with the permission that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match, Route
from starlette.types import Scope

from acp_server.gateway import endpoints
from acp_server.gateway.access import HEADER, Logged
from acp_server.gateway.endpoints import Handler, endpoint, refuse
from acp_server.gateway.gateway import Gateway

ROUTES: Final[tuple[tuple[str, str, str, Handler], ...]] = (
    ("POST", "/v3/chat", "chat", endpoints.create_chat),
    # Documented as GET, and called with POST by the official clients.
    ("GET", "/v3/chat/retrieve", "getChat", endpoints.retrieve_chat),
    ("POST", "/v3/chat/retrieve", "getChat", endpoints.retrieve_chat),
    ("GET", "/v3/chat/message/list", "listMessage", endpoints.list_chat_messages),
    ("POST", "/v3/chat/submit_tool_outputs", "chat", endpoints.submit_tool_outputs),
    ("POST", "/v3/chat/cancel", "cancelChat", endpoints.cancel_chat),
    ("POST", "/v1/conversation/create", "createConversation", endpoints.create_conversation),
    ("GET", "/v1/conversation/retrieve", "getConversation", endpoints.retrieve_conversation),
    ("GET", "/v1/conversations", "listConversation", endpoints.list_conversations),
    ("PUT", "/v1/conversations/{id}", "updateConversation", endpoints.rename_conversation),
    ("DELETE", "/v1/conversations/{id}", "deleteConversation", endpoints.delete_conversation),
    ("POST", "/v1/conversations/{id}/clear", "clearConversation", endpoints.clear_conversation),
    ("POST", "/v1/conversation/message/create", "createMessage", endpoints.create_message),
    ("POST", "/v1/conversation/message/list", "listMessage", endpoints.list_messages),
    ("GET", "/v1/conversation/message/retrieve", "getMessage", endpoints.retrieve_message),
    ("POST", "/v1/conversation/message/modify", "updateMessage", endpoints.modify_message),
    ("POST", "/v1/conversation/message/delete", "deleteMessage", endpoints.delete_message),
)


class _Route(Route):
    """A slash that is escaped parts nothing, and is in no path of the API."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """See Route."""
        if b"%2f" in scope["raw_path"].lower():
            return Match.NONE, {}
        return super().matches(scope)


def _cors(origins: Sequence[str]) -> list[Middleware]:
    if not origins:
        return []
    methods = sorted({method for method, *_ in ROUTES})
    exposed = [HEADER.decode(), "Retry-After"]
    # Credentials would be cookies, and the API has none.
    return [
        Middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=methods, allow_headers=["*"], expose_headers=exposed
        )
    ]


def make_app(gateway: Gateway) -> Starlette:
    """The API as an ASGI application. `gateway` runs as long as the application does, by its lifespan."""
    app = Starlette(
        routes=[
            _Route(path, endpoint(gateway, path, permission, handler), methods=[method])
            for method, path, permission, handler in ROUTES
        ]
        + endpoints.probes(gateway),
        middleware=[Middleware(Logged, answered=gateway.metrics.answered), *_cors(gateway.allow_origins)],
        exception_handlers={404: refuse, 405: refuse},
        lifespan=lambda _app: gateway.running(),
    )
    # A redirect would be no answer that the clients can read.
    app.router.redirect_slashes = False
    return app
