"""One live connection: the read loop, dispatch, requests to the peer, the writer.

It joins the wire (which requests are not answered) with the task tree (what is running). It knows JSON-RPC and its
cancellation, and nothing of sessions, prompts or tools.
"""
