"""Judges clients: the suite is the agent, and checks the client's messages.

    python -m acp_conformance client [--profile NAME|FILE] -- COMMAND... {agent} ...

The command is started once per case. `{agent}` in it is replaced by the command line of `judge`, a small program that
the client starts as its agent and that forwards everything to the suite. So the rules (`cases/`, a file for each group)
run in the suite itself, which also starts the client, plays the user, and notices the end of the client.

The map: the client starts `judge`, and `link` is the suite's end of the connection to it. `program` is the client's
process. `profile` describes the user's input. `stage` sets up both for one case. `conversation` has the messages of one
agent process. `checks` has the rules for every message. A case talks to `subject`. `run` runs the cases. `command` is
the command line.
"""
