"""JSON-RPC 2.0 on the wire. This package turns bytes into messages and back, and keeps the in-flight requests.

It has no event loop, no I/O and no types of ACP. `Endpoint` is the public class; the other modules are its parts.
"""
