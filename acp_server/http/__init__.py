"""HTTP/1.1 for ASGI applications: a strict parser (h11), bounded connections, a listener, server-sent events.

An application gets the scopes of ASGI 3 (`http`, `lifespan`). What requests mean, and who may send them, is its matter.
It runs on asyncio and trio. Needs h11.

- `asgi` has the types of ASGI.
- `Server` (`server`) runs the application's lifespan and its connections until it is told to end.
- `Listener` (`listener`) accepts connections while there are `Places`, and closes idle ones where there are none.
- `HttpConnection` (`connection`) reads requests by `StrictParser` (`strict`) from a `SocketStream` (`sockets`).
- `EventStream` (`events`) answers with server-sent events from a bounded `EventQueue`.
"""
