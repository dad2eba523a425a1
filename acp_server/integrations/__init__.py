"""Agents for ACP clients that are written with a framework. Each framework is an extra, and is imported only when it is
used."""
