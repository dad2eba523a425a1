"""What is kept of sessions between connections: the records, a store in memory, a store in a SQLite file.

A store keeps and finds. What becomes of a session is the matter of `acp_server.session`.
"""
