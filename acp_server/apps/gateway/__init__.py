"""The Coze v3 chat API over any agent: programs written for that API use an ACP agent instead (extra: `gateway`).

`app` has its routes, `gateway` assembles its parts, and docs/architecture.md lists the other modules. It uses agents
only through `acp_server.client`.
"""
