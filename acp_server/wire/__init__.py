"""Bytes to messages and back, and which requests are not answered yet.

Pure: no event loop, no I/O, no types of ACP. `Endpoint` is the one door; the other modules are its parts.
"""
