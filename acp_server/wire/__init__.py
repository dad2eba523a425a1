"""Bytes to messages and back, and who owes whom an answer.

Pure: no event loop, no I/O, no types of ACP. `Endpoint` is the one door; the other modules are its parts.
"""
