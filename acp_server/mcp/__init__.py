"""The MCP servers of a session: started or reached, followed, and ended with it (ACP, MCP Servers; extra `mcp`).

`servers` is `Session.mcp`. All servers of a session live in one task group, which the session holds open
(`Session.enter`). Each has a task of its own in it (`Server`), in which the official package's client is entered and
left, over one of the `transports`. Its tools become tools of the session, what they return becomes content (`tools`),
and what the server asks the user goes to the client (`Questions`). A call is awaited where the tool runs, so a cancel
of the tool call is a cancel of the MCP request, and the package sends `notifications/cancelled`.

The package is imported when the first server is connected to, and in a thread: it takes a second.
"""
