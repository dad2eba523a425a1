"""JSON-RPC 2.0 on the wire: bytes to messages and back, and the in-flight requests.

Pure: no event loop, no I/O, no types of ACP. `Endpoint` is the public face; the other modules are its parts.
"""
