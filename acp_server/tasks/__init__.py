"""Scopes that can be cancelled, and why they were: structured concurrency for requests, turns and tools.

Built on anyio alone; it knows neither JSON nor the protocol.
"""
