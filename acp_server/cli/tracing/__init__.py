"""What a recorded conversation comes to: its messages, what they began and ended, what is wrong, as text and as a page.

`acp_server.cli.trace` is the command.
"""
