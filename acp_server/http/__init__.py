"""HTTP/1.1 for ASGI applications: a strict parser (h11), bounded connections, a listener, server-sent events.

An application gets the scopes of ASGI 3 (`http`, `websocket`, `lifespan`). It decides who may send a request, and how
it is answered. The server runs on asyncio and trio. Needs h11.

- `asgi` has the types of ASGI.
- `Server` (`server`) runs the application's lifespan and its connections until `end`.
- `Listener` (`listener`) accepts connections while there are `Places`, and closes idle connections when there are none.
- `HttpConnection` (`connection`) reads requests by `StrictParser` (`strict`) from a `SocketStream` (`sockets`), which
  `TlsStream` (`tls`) may encrypt.
- `WebSocketExchange` (`websocket`) serves one WebSocket.
- `EventStream` (`events`) responds with server-sent events from a bounded `EventQueue`.
"""
