"""The Coze v3 chat API over any agent. Programs written for that API use an ACP agent instead (extra: `gateway`).

`app` has the routes, `gateway` assembles the parts, and docs/architecture.md lists the other modules. The gateway uses
agents only through `acp_server.client`.
"""
