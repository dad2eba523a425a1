"""Agents that are written with a framework, for ACP clients. Each framework is an extra, and imported only when
used."""
