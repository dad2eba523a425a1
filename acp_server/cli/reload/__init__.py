"""`acp-server serve --reload`: a new process of the agent whenever its code changes, behind one connection.

conversation    what has passed between client and agent, as far as a new process needs it
relay           passes it on between the client and one process after the other
watch           which files are watched, and how the processes are started
"""
