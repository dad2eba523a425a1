"""Agents that were written with a framework, for ACP clients. Each is an extra, and imported only when it is used."""
