"""A model server in the place of OpenAI's own: what is sent there by name goes to it."""

from typing import Any

import httpx2  # pyright: ignore[reportMissingImports]
from openai import AsyncOpenAI  # pyright: ignore[reportMissingImports]

from tests.integrations.model_server import ModelServer


class _There(httpx2.AsyncHTTPTransport):
    def __init__(self, server: ModelServer) -> None:
        super().__init__()
        self._url = httpx2.URL(server.url)

    async def handle_async_request(self, request: Any) -> Any:
        request.url = request.url.copy_with(scheme="http", host=self._url.host, port=self._url.port)
        return await super().handle_async_request(request)


def client_of(server: ModelServer, *, official: bool = False) -> Any:
    """A client of the server, which is told by its own URL, or by that of OpenAI."""
    if not official:
        return AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
    return AsyncOpenAI(api_key="none", max_retries=0, http_client=httpx2.AsyncClient(transport=_There(server)))
