"""The Coze v3 chat API over any agent: programs written for that API talk to an ACP agent instead (extra: `gateway`).

`app` has its routes, `gateway` its parts, put together, and docs/architecture.md says where the rest is. It speaks to
agents through `acp_server.client` alone.
"""
