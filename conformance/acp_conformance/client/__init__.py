"""The suite as an agent: it judges what a client sends.

    python -m acp_conformance client [--profile NAME|FILE] -- COMMAND... {agent} ...

The command is started once per case. Where it says `{agent}` it is given the command line of `judge`, a small program
that the client starts as its agent and that hands everything over to the suite. So the rules (`cases/`, a file a group)
are played in the suite itself, which also starts the client, plays its user and sees its end.

The map: `judge` is what the client starts; `link` the suite's end of it; `program` the client's process; `profile` how
its user is played; `stage` both of these for one case. `conversation` the messages of one agent; `checks` what has to
hold for every message; `agent` what a case talks to; `run` runs cases; `cli` is the command line.
"""
