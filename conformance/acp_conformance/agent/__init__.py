"""The suite as a client: it judges what an agent sends.

    python -m acp_conformance agent [--profile NAME|FILE] -- COMMAND...

The map: `subject` is what a case talks to, a `conversation` of `exchange`s over a `channel` of lines, with `editor` for
what a well-behaved client answers. `profile` says which prompt brings the agent into which situation. `run` runs the
cases (`cases/`, a file a group) and the `tour` of all situations. `observed` is what cases of the whole run judge;
`command` is the command line.
"""
