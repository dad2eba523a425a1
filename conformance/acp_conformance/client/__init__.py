"""The suite as an agent: it judges a client's messages.

    python -m acp_conformance client [--profile NAME|FILE] -- COMMAND... {agent} ...

The command is started once per case. `{agent}` in it is replaced by the command line of `judge`, a small program that
the client starts as its agent and that forwards everything to the suite. So the rules (`cases/`, a file for each group)
run in the suite itself, which also starts the client, plays its user and sees its end.

The map: the client starts `judge`; `link` is the suite's end of it; `program` the client's process; `profile` how its
user is played; `stage` both of these for one case. `conversation` the messages of one agent; `checks` the rules for
every message; a case talks to `subject`; `run` runs cases; `command` is the command line.
"""
