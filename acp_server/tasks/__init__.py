"""Structured concurrency for requests, turns and tool calls: cancel scopes in a tree, each cancel with its cause.

Built on anyio alone; it knows neither JSON nor the protocol.
"""
