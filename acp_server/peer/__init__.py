"""One connection: reading, dispatch, outgoing requests, writing, shutdown.

It connects the wire (the in-flight requests) with the task tree (the running handlers). It knows JSON-RPC and its
cancellation, and nothing of sessions, prompts or tools.
"""
