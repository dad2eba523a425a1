"""What the methods of ACP v2 mean for an agent: another form on the wire, and another life of a prompt.

Sessions, turns, tools and stores are those of version 1, in `acp_server.session`.

Nothing in here is loaded before a client asks for version 2.
"""
