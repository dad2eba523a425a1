"""Structured concurrency for requests, turns and tool calls: cancel scopes in a tree, and the cause of each cancel.

This package uses anyio alone. It knows neither JSON nor the protocol.
"""
