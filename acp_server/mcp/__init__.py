"""The MCP servers of a session: started or connected, used, and closed with it (ACP, MCP Servers; extra `mcp`).

`servers` has the class of `Session.mcp`. All servers of a session run in one task group, which the session keeps open
(`Session.enter`). Each has its own task in it (`Server`), which enters and leaves the official package's client over
one of the `transports`. The server's tools become tools of the session, their results become content (`tools`), and its
questions to the user are sent to the client (`ServerQuestions`). A call is awaited in the tool's task, so a cancel of
the tool call cancels the MCP request, and the package sends `notifications/cancelled`.

The package is imported when the first server is connected, and in a thread, since the import takes a second.
"""
