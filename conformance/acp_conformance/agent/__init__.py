"""Judges agents: the suite is the client, and checks the agent's messages.

    python -m acp_conformance agent [--profile NAME|FILE] -- COMMAND...

The map: a case talks to a `subject`, which is a `conversation` of `exchange`s over a `channel` of lines. `editor` has
the responses of a well-behaved client. `profile` maps situations to prompts. `run` runs the cases (`cases/`, a file for
each group) and the `tour` of all situations. Cases of the whole run judge `observed`. `command` is the command line.
"""
